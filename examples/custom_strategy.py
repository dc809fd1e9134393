"""A new strategy in one method, compared with the built-in ones: `python -m examples.custom_strategy`.

With one more line, in STRATEGIES (engine/strategies/__init__.py), the UI, the bench and the HTTP API offer it too.
"""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from assets import ASSETS
from bench.data.item import Item
from bench.harness.engine import make_splitter, open_engine
from bench.harness.runner import parse_variants, prepare_item, run_variants
from engine.analysis.variants import Variant
from engine.builder import ModelConfig
from engine.strategies.base import WindowStrategy
from engine.types import ScoreMode, SelectionContext
from store.data_folder import default_data_folder

RATIO = 0.2


@dataclass(frozen=True)
class CombinedWindows(WindowStrategy):
    """Windows that both the token selector and the main model's own attention (ProphetKV's signal) score highly."""

    label: ClassVar[str] = "Combined windows"
    description: ClassVar[str] = "Recomputes windows that the token selector and the main model's attention agree on."
    score_mode: ClassVar[ScoreMode | None] = ScoreMode.LEARNED

    def scores(self, context: SelectionContext) -> Tensor:
        return context.learned_scores() * context.question_attention().mean(0)


def main() -> None:
    """Run one question through four methods, and print the distance of each from full prefill."""
    engine = open_engine(ModelConfig(default_data_folder() / "models"))
    passages = make_splitter(engine, 256)((ASSETS / "samples" / "harbour-handbook.md").read_text("utf-8"))
    question = "Who is the chief engineer of Harbour Line?"
    item = Item("1", question, tuple(passages), ("Victor Lindqvist",), "handbook", "f1")
    prompt, _ = prepare_item(engine, item, engine.max_tokens)
    variants = parse_variants(["direct", "random", "cacheclip-trained"], [RATIO])
    variants.append(Variant("combined", RATIO, CombinedWindows(RATIO)))
    print(f"{len(passages)} passages, {prompt.context_tokens} tokens: {question}")
    for name, outcome in run_variants(engine, item, prompt, variants).items():
        ratio, answer_kl, answer = outcome["realised_ratio"], outcome["answer_kl"], outcome["answer"]
        print(f"{name:22} {ratio:4.0%} recomputed   answer KL {answer_kl:.4f}   {answer}")


if __name__ == "__main__":
    main()
