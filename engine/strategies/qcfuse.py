"""QCFuse (arXiv:2604.08585, 2606.05875): recompute the tokens that one layer attends to after a compressed view.

The question runs through the main model up to a critical layer c. In the layers before c it reads a compressed view:
the shared prefix and a few anchor tokens of each chunk, at their positions in the prompt. Its queries in layer c thus
know what the context is about, at the cost of a short prompt and c + 1 layers. The score of token j is
    mean over heads h and question rows q of a_c[h, q, j]
where a_c is layer c's softmax over all tokens of prefix, context and question, keys at their positions in the prompt.
With `anchors` = 0 the question reads no context before layer c; with 1 this is ProphetKV's pass, cut off after layer c.

Anchors: the authors let the model repeat each chunk when it is cached and keep, for each layer, the tokens that were
attended to most (KVzip, arXiv:2505.23416), 15 % of the chunk. Here the same share is chosen for each layer from the
cached keys alone: those least similar to the chunk's mean key (KeyDiff, arXiv:2504.15364). That needs no second pass
over a chunk and no further data in the cache, and unlike key norms it does not depend on whether keys are normalised.
Critical layer: the authors profile each model; their best layers lie at 42 to 76 % of the depth. Here it is a fraction
of the depth, by default 70 %: of the layers tried with the bundled model, the best in two small samples (docs/log.md).

Source: the authors' code and its description (github.com/uYanJX/QCFuse, QCFuse-Demo). Further differences:
- One critical layer, as in the first paper; the second's code averages the three best layers.
- No special anchors at the start of a chunk (the authors keep 4): after a shared prefix, they are no attention sinks.
- The first chunk and chunks of an exact path are skipped, because their KV is exact.
- The default ratio is that of the other methods here; the authors' is 0.5.
- Selection is not pipelined with loading: chunk KV is in memory, or loaded as a whole, before the question runs.
"""

from dataclasses import dataclass

from torch import Tensor

from engine.method import param_field
from engine.strategies.base import TokenStrategy
from engine.types import SelectionContext

SHARE = {"low": 0.0, "high": 1.0, "step": 0.05}


@dataclass(frozen=True)
class QCFuse(TokenStrategy):
    label = "QCFuse"
    description = "Recomputes the tokens that one layer attends to, after the question has read a few of each passage."
    paper = "2606.05875"

    anchors: float = param_field(0.15, "Anchor tokens", "Share of each passage that the question reads first.", **SHARE)
    depth: float = param_field(
        0.7, "Critical layer", "Layer whose attention selects tokens: 0 is the first, 1 the last.", **SHARE
    )

    def scores(self, context: SelectionContext) -> Tensor:
        return context.compressed_view_attention(self.anchors, round(self.depth * (context.num_layers - 1)))
