"""A method of your own beside ours, on the engine alone: `python -m examples.custom_strategy`.

A method is a frozen dataclass: a View of the passages in, a Plan of the rows to recompute out. With one more line, in
STRATEGIES (`engine/strategies/__init__.py`), page, bench and HTTP have it too, its fields as sliders.
"""

from dataclasses import dataclass
from typing import ClassVar

from assets import ASSETS
from bench.data.item import Item
from bench.harness.variants import parse_variants
from bench.harness.engine import make_splitter, open_engine
from bench.harness.paired import prepare_item, run_variants
from engine.analysis.variants import Variant
from engine.builder import ModelConfig
from engine.method import ratio_param
from engine.strategies.base import Strategy
from engine.strategies.windows import windows_within_budget
from engine.types import RecomputePlan, SelectionContext
from store.data_folder import default_data_folder

RATIO = 0.2


@dataclass(frozen=True)
class Agreed(Strategy):
    """ratio  nominal recompute ratio, 0 to 1"""

    label: ClassVar[str] = "Agreed windows"
    description: ClassVar[str] = (
        "Recomputes what the trained selector and the main model's own attention both point at."
    )

    ratio: float = ratio_param()

    def plan(self, view: SelectionContext) -> RecomputePlan:
        scores = view.learned_scores() * view.question_attention().mean(0)  # [context tokens] each; ProphetKV's is the second
        return RecomputePlan(view.slots[windows_within_budget(scores, view.lengths, self.ratio, view.num_exact_chunks)])


def main() -> None:
    """Ask one question through four methods, and print how far each is from a full prefill."""
    engine = open_engine(ModelConfig(default_data_folder() / "models"))
    passages = make_splitter(engine, 256)((ASSETS / "samples" / "harbour-handbook.md").read_text("utf-8"))
    item = Item(
        "1", "Who is the chief engineer of Harbour Line?", tuple(passages), ("Victor Lindqvist",), "handbook", "f1"
    )
    reading, _ = prepare_item(engine, item, engine.max_tokens)
    chosen = [*parse_variants(["direct", "random", "cacheclip-trained"], [RATIO]), Variant("agreed", RATIO, Agreed(RATIO))]
    print(f"{len(passages)} passages, {reading.context_tokens} tokens: {item.question}")
    for name, outcome in run_variants(engine, item, reading, chosen).items():
        share, away, answer = outcome["realised_ratio"], outcome["answer_kl"], outcome["answer"]
        print(f"{name:22} {share:4.0%} recomputed   KL along the answer {away:.4f}   {answer}")


if __name__ == "__main__":
    main()
