"""A trained selector: which attention heads of the first layers tell what is worth recomputing.

Most heads look at sinks, neighbours or commas; a few look for what the question needs, and some of those sit early. A
selector is their weights, so scoring runs the question through the first layers only. Where that is a fraction of the
model, an adapter can teach these layers to ask better: the question passes copies that have it, over chunk KV that is
the model's own. Made by `python -m engine.finetune selector`.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from engine.errors import ModelNotFound, UnsupportedModel
from engine.model.decoder import Decoder
from engine.model.first_layers import first_layers

FILE = "selector.json"
OFFSETS = 9  # how far into its chunk a token stands: 0, 1-2, 3-6, 7-14, ..., 255 and more


@dataclass(frozen=True)
class Selector:
    """Weights of heads, and of how far into its chunk a token stands.

    heads    [layers, query heads], not negative
    offsets  [9], positive; the first tokens of a chunk change most when they are recomputed
    asking   the layers that the question passes; None: the model's own
    """

    heads: Tensor
    offsets: Tensor
    asking: Decoder | None = None

    @property
    def layers(self) -> int:
        return self.heads.shape[0]

    def score(self, attention: Tensor, lengths: Sequence[int]) -> Tensor:
        """Return the score of each context token, [T].

        attention  [layers, query heads, T], what each head pays; each head counts as if it looked at nothing else
        lengths    tokens of each chunk, T in sum
        """
        found = torch.einsum("lh,lht->t", self.heads, shares(attention))
        return found * self.offsets[offset_of(lengths)]

    def save(self, folder: Path) -> None:
        """Write the selector as JSON; the adapter of `asking` lies beside it."""
        rounded = {"heads": self.heads.double(), "offsets": self.offsets.double()}
        fields = {name: t.mul(1e5).round().div(1e5).tolist() for name, t in rounded.items()}
        (folder / FILE).write_text(json.dumps({**fields, "taught": self.asking is not None}) + "\n")


def load_selector(folder: Path, decoder: Decoder) -> Selector:
    """Return the selector in a folder, for this model.

    Raises ModelNotFound for files that are missing or torn, UnsupportedModel for those of another model.
    """
    path = folder / FILE
    try:
        fields = json.loads(path.read_text())
        selector = Selector(torch.tensor(fields["heads"]), torch.tensor(fields["offsets"]))
        taught = bool(fields.get("taught"))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelNotFound(f"The selector in {path} cannot be read ({error}).") from error
    shape = selector.heads.shape
    fits = len(shape) == 2 and 1 <= shape[0] <= decoder.spec.layers and shape[1] == decoder.spec.heads
    if not fits or selector.offsets.shape != (OFFSETS,):
        raise UnsupportedModel(f"The selector in {path} was made for a model with other heads.")
    return replace(selector, asking=first_layers(decoder, selector.layers, folder)) if taught else selector


def shares(attention: Tensor) -> Tensor:
    """Return [..., T] scaled so that each row sums to 1."""
    return attention / attention.sum(-1, keepdim=True).clamp(min=1e-12)


def offset_of(lengths: Sequence[int]) -> Tensor:
    """Return for each token of chunks of these lengths, [T], how far into its chunk it stands, as a class 0 to 8."""
    at = torch.cat([torch.arange(length) for length in lengths]) if lengths else torch.empty(0, dtype=torch.int64)
    return at.float().add(1).log2().floor().long().clamp(max=OFFSETS - 1)
