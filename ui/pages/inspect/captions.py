"""Captions of the Inspect page's figures."""

from dataclasses import dataclass

from ui.html import Markup, tag


@dataclass(frozen=True, slots=True)
class FigureCaption:
    """Title, one-sentence description, tooltip, and colour keys of a figure."""

    title: str
    description: str
    tooltip: str
    keys: tuple[tuple[str, str], ...] = ()

    def render(self) -> Markup:
        hint = tag("span", "?", class_="kv-hint", title=self.tooltip, tabindex=0, role="note", aria_label=self.tooltip)
        keys = [tag("li", name, class_=f"kv-key kv-key-{colour}") for colour, name in self.keys]
        return tag(
            "header",
            tag("h3", self.title, " ", hint),
            tag("p", self.description),
            tag("ul", *keys, class_="kv-keys", aria_label="Colours") if keys else None,
            class_="kv-caption",
        )


ATTENTION_MAP = FigureCaption(
    "Attention from the question, by layer",
    "Each row is a layer of the main model, each column a position in the passages; "
    "stronger colour means more attention from the question.",
    "Attention of the question's tokens in a full prefill, averaged over heads, relative to the average of its row. "
    "The shared prefix is left out. The top row is the auxiliary model, which sees each passage alone.",
)
LAYER_KL = FigureCaption(
    "Difference from the last layer",
    "How much each layer's attention differs from the last layer's: 0 is identical.",
    "Kullback-Leibler divergence KL(last layer || layer), in nats, without the prefix and the passages' sinks, which "
    "would dominate it. The dashed line is the auxiliary model's last layer: where it is below a bar, the auxiliary "
    "model predicts the last layer better than that layer does.",
    (("green", "layer of the main model"), ("violet", "auxiliary model")),
)
AGREEMENT = FigureCaption(
    "Agreement by recompute ratio",
    "Of the tokens that either side selects, the share that both select: 1 is full agreement.",
    "Jaccard similarity, sinks left out. Amber: the chosen method against as many tokens of the oracle, which uses the "
    "main model's own attention. Violet: most attended tokens of the auxiliary model against those of the main model's "
    "last layer. Grey: the other methods; dotted: chance.",
    (("orange", "chosen method"), ("violet", "auxiliary model"), ("grey", "other methods")),
)
RANKS = FigureCaption(
    "Auxiliary model vs. main model",
    "Each dot is a window of 8 tokens; near the diagonal, both models rank its attention alike.",
    "Windows ranked by mean attention: the auxiliary model on the x-axis, the main model's last layer on the y-axis. "
    "Amber dots are recomputed. Spearman's rank correlation is 1 for the same order, 0 for none.",
    (("orange", "recomputed"), ("grey", "reused")),
)
