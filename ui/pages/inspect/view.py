"""An inspected question as HTML: legend, recompute summary, passages with attention curves, rank scatter."""

import numpy as np

from engine.method import MethodInfo
from engine.request import Answer
from ui.components.excerpt import render_passage_card
from ui.figures.answer_metrics import render_metrics, render_state
from ui.figures.rank_scatter import rank_scatter
from ui.figures.sparklines import peak, sparklines
from ui.format import UNKNOWN, count, percent
from ui.html import Markup, join, tag
from ui.pages.inspect.session import InspectionSession
from ui.pages.inspect.token_spans import CITED, RECOMPUTED, SINK, MarkedSpan, mark_spans

_CLASSES = {RECOMPUTED: "kv-fresh", SINK: "kv-sink", CITED: "kv-quoted"}
_SINK = (
    "Attention sink: a token that attracts attention whatever the question is, often a word like 'the'. "
    "It gets at least 50 times its passage's median in at least a quarter of the layers."
)
_LEGEND = (
    ("", "reused", "Keys and values (KV) come from the cache."),
    (_CLASSES[RECOMPUTED], "recomputed", "Keys and values (KV) are recomputed for this question, over all passages."),
    (_CLASSES[SINK], "sink", _SINK),
    (_CLASSES[CITED], "cited", "The answer quotes this sentence. Shown after 'Ask with these settings'."),
)


def render_legend() -> Markup:
    """Return the four colours with their meanings."""
    entries = (
        tag("li", tag("span", "Abc", class_=f"kv-swatch {css_class}".strip()), name, title=meaning, tabindex=0)
        for css_class, name, meaning in _LEGEND
    )
    return tag("ul", *entries, class_="kv-colour-key", aria_label="What the colours mean")


def render_summary(session: InspectionSession, method: MethodInfo, target: int) -> Markup:
    """Return how much the method recomputes at a ratio of `target` percent."""
    mask = session.recompute_mask(method.name, target)
    tokens = session.inspection.num_tokens
    if mask is None:
        hint = f"{method.label} selects tokens during the forward pass. Ask with these settings to see its selection."
        return tag("div", _headline(UNKNOWN, f"of {count(tokens, 'token')} recomputed"), _muted(hint))
    recomputed = int(mask.sum())
    ratio = f"target {percent(target / 100)}" if method.has_ratio else f"{method.label} has no ratio"
    exact = session.inspection.num_exact_passages
    exact_note = "Passage 1 is exact already." if exact == 1 else f"Passages 1 to {exact} are exact already."
    tooltip = "Cached keys and values (KV) equal those of full prefill, so recomputing them changes nothing."
    return tag(
        "div",
        _headline(
            percent(recomputed / tokens if tokens else 0, 1),
            f"{recomputed:,} of {count(tokens, 'token')} recomputed, {ratio}",
        ),
        tag("p", exact_note, class_="kv-muted", title=tooltip) if exact and method.has_ratio else None,
    )


def render_passages(session: InspectionSession, method: MethodInfo, target: int, rank: int = 0) -> Markup:
    """Return the passages with attention curves and marked text; only the one of `rank` unless it is 0."""
    inspection = session.inspection
    mask = session.recompute_mask(method.name, target)
    mask = np.zeros(inspection.num_tokens, dtype=bool) if mask is None else mask
    visible = [(each, part) for each, part in enumerate(inspection.passage_slices, start=1) if rank in (0, each)]
    slices = [part for _, part in visible]
    last_layer = inspection.primary[-1]
    peaks = (peak(inspection.auxiliary, slices), peak(last_layer, slices))
    cards = []
    for each, part in visible:
        passage = inspection.passages[each - 1]
        quotes = [(start, end) for quoted_rank, start, end in session.quotes if quoted_rank == each]
        spans, block = mark_spans(passage, mask[part], inspection.sinks[part], quotes)
        card = render_passage_card(
            each,
            passage.document,
            None if passage.page is None else f"page {passage.page}",
            join(*(_span(span) for span in spans)),
            tag("p", _card_caption(mask[part], block)),
            curves=sparklines(inspection.auxiliary[part], last_layer[part], mask[part], peaks),
        )
        cards.append(card)
    return tag("ol", *cards, class_=f"kv-inspected{' kv-alone' if rank else ''}")


def render_rank_scatter(session: InspectionSession, method: MethodInfo, target: int, rank: int = 0) -> Markup:
    """Return the rank scatter of all windows, or of one passage's, with axis labels."""
    inspection = session.inspection
    mask = session.recompute_mask(method.name, target)
    starts = inspection.window_starts
    recomputed = np.zeros(len(starts), dtype=bool)
    if mask is not None and len(starts):
        recomputed = 2 * np.add.reduceat(mask.astype(int), starts) >= np.diff([*starts, inspection.num_tokens])
    part = inspection.passage_slices[rank - 1] if rank else slice(0, inspection.num_tokens)
    inside = (starts >= part.start) & (starts < part.stop)
    correlation = inspection.rank_correlation
    return tag(
        "div",
        tag("span", "main model: most attention \u2192", class_="kv-up"),
        rank_scatter(inspection.window_ranks[:, inside], recomputed[inside], correlation, len(starts)),
        tag("span", "auxiliary model: most attention \u2192", class_="kv-across"),
        _muted(f"Rank correlation {correlation:.2f} over {count(len(starts), 'window')}"),
        class_="kv-scatter-frame",
    )


def render_answer(answer: Answer, method: MethodInfo) -> Markup:
    """Return the answer so far with its metrics."""
    text = tag("div", answer.text, class_="kv-text", dir="auto") if answer.text else None
    is_busy = "false" if answer.state in ("done", "stopped") else "true"
    return tag("article", render_state(answer), text, render_metrics(answer, method), aria_busy=is_busy)


def _muted(text: str) -> Markup:
    return tag("p", text, class_="kv-muted")


def _headline(value: str, caption: str) -> Markup:
    return tag("p", tag("strong", value), tag("small", caption), class_="kv-big")


def _card_caption(mask: np.ndarray, block: int) -> str:
    recomputed = int(mask.sum())
    ratio = recomputed / len(mask) if len(mask) else 0
    caption = f"{recomputed:,} of {count(len(mask), 'token')} recomputed ({percent(ratio)})."
    if block > 1:
        caption += f" The method selects single tokens; colours show the majority of every {block} tokens."
    return caption


def _span(span: MarkedSpan) -> object:
    classes = [css_class for mark, css_class in _CLASSES.items() if span.marks & mark]
    return tag("span", span.text, class_=" ".join(classes)) if classes else span.text
