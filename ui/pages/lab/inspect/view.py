"""An inspected question as HTML: captions, legend, summary, passages with attention curves, rank scatter."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np

from engine.analysis.inspection import InspectedPassage, Inspection
from engine.method import MethodInfo
from engine.request import Answer
from ui.components.excerpt import render_passage_card
from ui.figures.answer_metrics import render_metrics, render_state
from ui.figures.inspection import peak, rank_scatter, sparklines
from ui.format import UNKNOWN, count, percent
from ui.html import Markup, join, tag

MAX_SPANS = 200  # per passage, from recomputed tokens alone
RECOMPUTED, SINK, CITED = 1, 2, 4  # marks of a character, which are added up
_CLASSES = {RECOMPUTED: "kv-fresh", SINK: "kv-sink", CITED: "kv-quoted"}
_SINK = (
    "Attention sink: a token that attracts attention whatever the question is, often a word like 'the'. "
    "It gets at least 50 times its passage's median in at least a quarter of the layers."
)
_EXACT = "Cached keys and values (KV) equal those of full prefill, so recomputing them changes nothing."
_LEGEND = (
    ("", "reused", "Keys and values (KV) come from the cache."),
    (_CLASSES[RECOMPUTED], "recomputed", "Keys and values (KV) are recomputed for this question, over all passages."),
    (_CLASSES[SINK], "sink", _SINK),
    (_CLASSES[CITED], "cited", "The answer quotes this sentence. Shown after 'Ask with these settings'."),
)


def _caption(title: str, description: str, tooltip: str, *keys: tuple[str, str]) -> Markup:
    """Return a figure's title with a tooltip, its description, and the meanings of its colours."""
    hint = tag("span", "?", class_="kv-hint", title=tooltip, tabindex=0, role="note", aria_label=tooltip)
    colours = [tag("li", name, class_=f"kv-key kv-key-{colour}") for colour, name in keys]
    return tag(
        "header",
        tag("h3", title, " ", hint),
        tag("p", description),
        tag("ul", *colours, class_="kv-keys", aria_label="Colours") if colours else None,
        class_="kv-caption",
    )


ATTENTION_MAP = _caption(
    "Attention from the question, by layer",
    "Each row is a layer of the main model, each column a position in the passages; "
    "stronger colour means more attention from the question.",
    "Attention of the question's tokens in a full prefill, averaged over heads, relative to the average of its row. "
    "The shared prefix is left out. The top row is the auxiliary model, which sees each passage alone.",
)
LAYER_KL = _caption(
    "Difference from the last layer",
    "How much each layer's attention differs from the last layer's: 0 is identical.",
    "Kullback-Leibler divergence KL(last layer || layer), in nats, without the prefix and the passages' sinks, which "
    "would dominate it. The dashed line is the auxiliary model's last layer: where it is below a bar, the auxiliary "
    "model predicts the last layer better than that layer does.",
    ("green", "layer of the main model"),
    ("violet", "auxiliary model"),
)
AGREEMENT = _caption(
    "Agreement by recompute ratio",
    "Of the tokens that either side selects, the share that both select: 1 is full agreement.",
    "Jaccard similarity, sinks left out. Amber: the chosen method against as many tokens of the oracle, which uses the "
    "main model's own attention. Violet: most attended tokens of the auxiliary model against those of the main model's "
    "last layer. Grey: the other methods; dotted: chance.",
    ("orange", "chosen method"),
    ("violet", "auxiliary model"),
    ("grey", "other methods"),
)
RANKS = _caption(
    "Auxiliary model vs. main model",
    "Each dot is a window of 8 tokens; near the diagonal, both models rank its attention alike.",
    "Windows ranked by mean attention: the auxiliary model on the x-axis, the main model's last layer on the y-axis. "
    "Amber dots are recomputed. Spearman's rank correlation is 1 for the same order, 0 for none.",
    ("orange", "recomputed"),
    ("grey", "reused"),
)


def render_legend() -> Markup:
    """Return the four colours with their meanings."""
    entries = (
        tag("li", tag("span", "Abc", class_=f"kv-swatch {css_class}".strip()), name, title=meaning, tabindex=0)
        for css_class, name, meaning in _LEGEND
    )
    return tag("ul", *entries, class_="kv-colour-key", aria_label="What the colours mean")


def render_summary(inspection: Inspection, method: MethodInfo, target: int, mask: np.ndarray | None) -> Markup:
    """Return how many tokens the method recomputes at a ratio of `target` percent; `mask` [T] is None if unknown."""
    value = UNKNOWN
    caption = f"of {count(inspection.num_tokens, 'token')} recomputed"
    note = None
    if mask is None:
        hint = f"{method.label} selects tokens during the forward pass. Ask with these settings to see its selection."
        note = tag("p", hint, class_="kv-muted")
    else:
        recomputed = int(mask.sum())
        value = percent(recomputed / len(mask) if len(mask) else 0, 1)
        ratio = f"target {percent(target / 100)}" if method.has_ratio else f"{method.label} has no ratio"
        caption = f"{recomputed:,} {caption}, {ratio}"
        exact = inspection.num_exact_passages
        if exact and method.has_ratio:
            hint = "Passage 1 is exact already." if exact == 1 else f"Passages 1 to {exact} are exact already."
            note = tag("p", hint, class_="kv-muted", title=_EXACT)
    question = tag("p", inspection.question, class_="kv-muted", dir="auto", translate="no")
    return tag("div", question, tag("p", tag("strong", value), tag("small", caption), class_="kv-big"), note)


def render_passages(
    inspection: Inspection, quotes: Sequence[tuple[int, int, int]], mask: np.ndarray, rank: int = 0
) -> Markup:
    """Return the passages, or the one of `rank`, with attention curves and the recomputed tokens `mask` [T] marked.

    `quotes` are (rank, start, end) in characters of a passage.
    """
    visible = [(each, part) for each, part in enumerate(inspection.passage_slices, start=1) if rank in (0, each)]
    slices = [part for _, part in visible]
    last_layer = inspection.primary[-1]
    peaks = (peak(inspection.auxiliary, slices), peak(last_layer, slices))
    cards = []
    for each, part in visible:
        passage = inspection.passages[each - 1]
        own_quotes = [(start, end) for quoted_rank, start, end in quotes if quoted_rank == each]
        spans, block = mark_spans(passage, mask[part], inspection.sinks[part], own_quotes)
        card = render_passage_card(
            each,
            passage.document,
            None if passage.page is None else f"page {passage.page}",
            join(*(_marked(text, marks) for text, marks in spans)),
            tag("p", _card_caption(mask[part], block)),
            curves=sparklines(inspection.auxiliary[part], last_layer[part], mask[part], peaks),
        )
        cards.append(card)
    return tag("ol", *cards, class_=f"kv-inspected{' kv-alone' if rank else ''}")


def mark_spans(
    passage: InspectedPassage, recomputed: np.ndarray, sinks: np.ndarray, quotes: Iterable[tuple[int, int]] = ()
) -> tuple[list[tuple[str, int]], int]:
    """Return a passage's text as runs of equal marks, and the block size in tokens to which `recomputed` was coarsened.

    `recomputed` and `sinks` are [tokens] bool, `quotes` characters (start, end). A method that selects single tokens
    would create almost one run per token; beyond `MAX_SPANS`, blocks of tokens take the colour of their majority.
    """
    recomputed, block = _coarsen(recomputed)
    marks = np.zeros(len(passage.text), dtype=np.uint8)
    for first, last in _runs(recomputed):
        marks[passage.spans[first, 0] : passage.spans[last - 1, 1]] |= RECOMPUTED
    for start, end in passage.spans[sinks].tolist():
        word = passage.text[start:end].lstrip()  # a token includes the space before its word, which stays unmarked
        marks[end - len(word) : end] |= SINK
    for start, end in quotes:
        marks[start:end] |= CITED
    bounds = [0, *(np.flatnonzero(np.diff(marks)) + 1).tolist(), len(marks)] if len(marks) else []
    return [(passage.text[start:end], int(marks[start])) for start, end in pairwise(bounds)], block


def render_rank_scatter(inspection: Inspection, mask: np.ndarray, rank: int = 0) -> Markup:
    """Return the rank scatter of all windows, or of one passage's, with axis labels; `mask` as in `render_passages`."""
    starts = inspection.window_starts
    widths = np.diff(starts, append=inspection.num_tokens)
    recomputed = 2 * np.add.reduceat(mask.astype(int), starts) >= widths
    part = inspection.passage_slices[rank - 1] if rank else slice(0, inspection.num_tokens)
    inside = (starts >= part.start) & (starts < part.stop)
    correlation = inspection.rank_correlation
    caption = f"Rank correlation {correlation:.2f} over {count(len(starts), 'window')}"
    return tag(
        "div",
        tag("span", "main model: most attention \u2192", class_="kv-up"),
        rank_scatter(inspection.window_ranks[:, inside], recomputed[inside], correlation, len(starts)),
        tag("span", "auxiliary model: most attention \u2192", class_="kv-across"),
        tag("p", caption, class_="kv-muted"),
        class_="kv-scatter-frame",
    )


def render_answer(answer: Answer, method: MethodInfo) -> Markup:
    """Return the answer so far with its metrics."""
    text = tag("div", answer.text, class_="kv-text", dir="auto", translate="no") if answer.text else None
    is_busy = "false" if answer.state in ("done", "stopped") else "true"
    return tag("article", render_state(answer), text, render_metrics(answer, method), aria_busy=is_busy)


def _card_caption(mask: np.ndarray, block: int) -> str:
    recomputed = int(mask.sum())
    ratio = recomputed / len(mask) if len(mask) else 0
    caption = f"{recomputed:,} of {count(len(mask), 'token')} recomputed ({percent(ratio)})."
    if block > 1:
        caption += f" The method selects single tokens; colours show the majority of every {block} tokens."
    return caption


def _marked(text: str, marks: int) -> Markup | str:
    classes = [css_class for mark, css_class in _CLASSES.items() if marks & mark]
    return tag("span", text, class_=" ".join(classes)) if classes else text


def _runs(mask: np.ndarray) -> list[tuple[int, int]]:
    """Return start and end of each run of True in [tokens]."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], mask, [False])).astype(np.int8)))
    return list(zip(edges[0::2].tolist(), edges[1::2].tolist(), strict=True))


def _coarsen(mask: np.ndarray) -> tuple[np.ndarray, int]:
    """Return the mask and its block size: the smallest of 1, 8, 16 ... tokens with at most MAX_SPANS spans."""
    block = 1
    coarse = mask
    while 2 * len(_runs(coarse)) + 1 > MAX_SPANS:
        block = 8 if block == 1 else 2 * block
        starts = np.arange(0, len(mask), block)
        fraction = np.add.reduceat(mask.astype(int), starts) / np.diff([*starts, len(mask)])
        coarse = np.repeat(fraction >= 0.5, block)[: len(mask)]
    return coarse, block
