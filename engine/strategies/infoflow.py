"""InfoFlow KV (arXiv:2603.05353): recompute the tokens with the largest attention norm from the question.

The question's rows run once through the main model over the assembled chunks, whose keys are rotated to their global
positions ("inference-consistent RoPE geometry"). The score of token j is the mean over the last two layers of
    || mean over heads of a[h, :, j] ||_2
where a[h, q, j] is the softmax weight from question row q. ProphetKV takes the mean over rows instead of the norm; the
norm prefers tokens that few rows attend to strongly over tokens that all rows attend to a little. The first chunk's KV
is exact, so the budget, a share of all tokens, is spent on the others.

Source: abstract, project page, and the authors' code (github.com/tx467/InfoFlow-KV, default score "norm"). Differences:
- Chunks are not reordered. The authors' second variant moves the chunks with the most selected tokens to the end and
  scores again. Here the order of the prompt is that of the sources and citations, and the key of exact paths. Published
  effect on F1 (Qwen3-14B, four data sets): -0.010 to 0.004 with passages, -0.091 to 0.014 with fixed-size chunks.
- The rows are the question with the chat template's end, as for ProphetKV here; the authors run the bare question.
- The first chunk and chunks of an exact path are skipped; the authors skip the first chunk only.
- The authors compute layer 0 for all tokens; here layer 0 of the re-rotated chunks is exact already.
"""

from dataclasses import dataclass

from torch import Tensor

from engine.method import ratio_param
from engine.strategies.base import TokenStrategy
from engine.types import SelectionContext

SCORED_LAYERS = 2  # last ones


@dataclass(frozen=True)
class InfoFlow(TokenStrategy):
    label = "InfoFlow KV"
    description = "Recomputes the tokens that some of the question's tokens attend to strongly in the last two layers."
    paper = "2603.05353"

    ratio: float = ratio_param(0.15)

    def scores(self, context: SelectionContext) -> Tensor:
        return context.question_attention_norm()[-SCORED_LAYERS:].mean(0)
