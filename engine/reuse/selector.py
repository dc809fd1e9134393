"""A trained selector: which attention heads of the first layers tell what is worth recomputing.

Most heads look at sinks, neighbours or commas; a few look for what the question needs, and some of those sit early. A
selector is their weights and nothing else, so scoring runs the question through the first layers only. It is fitted by
`python -m engine.finetune selector`.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from engine.errors import ModelNotFound, UnsupportedModel
from engine.model.spec import Spec

FILE = "selector.json"
OFFSETS = 9  # how far into its chunk a token stands: 0, 1-2, 3-6, 7-14, ..., 255 and more


@dataclass(frozen=True)
class Selector:
    """Weights of heads, and of how far into its chunk a token stands.

    heads    [layers, query heads], not negative
    offsets  [9], positive; the first tokens of a chunk change most when they are recomputed
    """

    heads: Tensor
    offsets: Tensor

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

    def save(self, path: Path) -> None:
        """Write the selector as JSON."""
        rounded = {"heads": self.heads.double(), "offsets": self.offsets.double()}
        path.write_text(json.dumps({name: t.mul(1e5).round().div(1e5).tolist() for name, t in rounded.items()}) + "\n")


def load_selector(path: Path, spec: Spec) -> Selector:
    """Return the selector in a file, for a model of these shapes.

    Raises ModelNotFound for a file that is missing or torn, UnsupportedModel for one of another model.
    """
    try:
        fields = json.loads(path.read_text())
        selector = Selector(torch.tensor(fields["heads"]), torch.tensor(fields["offsets"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelNotFound(f"The selector in {path} cannot be read ({error}).") from error
    shape = selector.heads.shape
    fits = len(shape) == 2 and 1 <= shape[0] <= spec.layers and shape[1] == spec.heads
    if not fits or selector.offsets.shape != (OFFSETS,):
        raise UnsupportedModel(f"The selector in {path} was made for a model with other heads.")
    return selector


def shares(attention: Tensor) -> Tensor:
    """Return [..., T] scaled so that each row sums to 1."""
    return attention / attention.sum(-1, keepdim=True).clamp(min=1e-12)


def offset_of(lengths: Sequence[int]) -> Tensor:
    """Return for each token of chunks of these lengths, [T], how far into its chunk it stands, as a class 0 to 8."""
    at = torch.cat([torch.arange(length) for length in lengths]) if lengths else torch.empty(0, dtype=torch.int64)
    return at.float().add(1).log2().floor().long().clamp(max=OFFSETS - 1)
