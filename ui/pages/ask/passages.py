"""Retrieved passages with recomputed tokens and quoted sentences highlighted, and the panel that a citation opens."""

from collections.abc import Sequence
from itertools import accumulate

import gradio as gr

from backend.interface.backend import Backend
from backend.interface.errors import user_message
from engine.errors import ModelNotReady
from engine.generation.citations import quoted_spans
from engine.request import Answer, MarkedPassage, RatioPreview, Source, TextSpan
from ui.components.document_text import Span, highlight_quotes
from ui.components.excerpt import (
    badge,
    find_quote,
    match_badges,
    page_label,
    render_excerpt,
    render_page,
    render_passage_card,
)
from ui.components.tiers import TIERS
from ui.events import INSTANT
from ui.format import count, percent
from ui.html import Markup, join, tag

_AS_TEXT = tag("h3", "As the model reads it")
_TIERS = {name: (tier.noun, f"Its keys and values (KV) were {tier.source}.") for name, tier in TIERS.items()} | {
    "computed": ("computed now", "Not cached before: its keys and values (KV) were computed and stored."),
    "none": ("no cache", "This method recomputes every token and reuses nothing."),
}
# By whether the text was recomputed for the answer, and whether it would be at the ratio of the preview.
_MARK_CLASSES = {(True, True): None, (True, False): "kv-dropped", (False, True): "kv-added"}
_ORDER = (
    "The best match first, by similarity and by matching words together. In a chat, passages of the previous answer "
    "come first, in their previous order, so that their cached keys and values (KV) are exact."
)


def render_passages(answer: Answer, preview: RatioPreview | None = None, ratio: float = 0.0) -> Markup:
    """Return the passages in prompt order, with the sentences that the answer cites highlighted.

    With a preview, the text that would be recomputed at its ratio is told from what was recomputed for the answer.
    """
    if not answer.sources:
        return Markup("")
    quotes: list[list[Span]] = [[] for _ in answer.sources]
    for rank, start, end in quoted_spans(answer.text, [source.text for source in answer.sources]):
        quotes[rank - 1].append((start, end))
    is_local = not answer.answered_by  # the KV of another server cannot be seen
    has_prefill = is_local and answer.trace.ttft_ms is not None and answer.state != "reading"  # quotes answer before it
    marked = preview.passages if preview else (None,) * len(answer.sources)
    cards = [_card(*each, has_prefill) for each in zip(answer.sources, quotes, marked, strict=True)]
    order = tag("small", "in the order in which the model reads them", title=_ORDER)
    title = tag("h3", f"Retrieved passages · {len(answer.sources)}", " ", order)
    legend = _preview_legend(percent(ratio)) if preview else _legend(any(quotes)) if is_local else None
    head = tag("div", title, legend, class_="kv-passages-head")
    return tag("section", head, tag("ol", *cards, class_="kv-passages"), aria_label="Retrieved passages")


def mark_recomputed(
    spans: Sequence[TextSpan], quotes: Sequence[Span] = (), preview: Sequence[TextSpan] | None = None
) -> Markup:
    """Return a passage's text with recomputed runs and quotes marked; neighbouring spans share one element.

    The spans of a preview divide the same text by what would be recomputed at another ratio.
    """
    text = "".join(span.text for span in spans)
    by_start = (_recomputed_by_start(spans), _recomputed_by_start(spans if preview is None else preview))
    runs = [(0, (False, False))]  # where each starts; whether it was recomputed, and whether it would be
    for start in sorted(by_start[0] | by_start[1]):
        was, would_be = (each.get(start, flag) for each, flag in zip(by_start, runs[-1][1], strict=True))
        if (was, would_be) != runs[-1][1]:
            runs.append((start, (was, would_be)))
    parts = []
    for (start, flags), end in zip(runs, [*(start for start, _ in runs[1:]), len(text)], strict=True):
        part = highlight_quotes(text[start:end], [(at - start, until - start) for at, until in quotes])
        parts.append(tag("mark", part, class_=_MARK_CLASSES[flags]) if any(flags) else part)
    return join(*parts)


def _recomputed_by_start(spans: Sequence[TextSpan]) -> dict[int, bool]:
    starts = accumulate((len(span.text) for span in spans), initial=0)
    return {start: span.recomputed for start, span in zip(starts, spans, strict=False) if span.text}


def _legend(has_quotes: bool) -> Markup:
    return tag(
        "p",
        tag("span", tag("mark", "Abc"), " recomputed for this question"),
        tag("span", tag("span", "Abc", class_="kv-plain"), " reused from cache"),
        tag("span", tag("em", "Abc", class_="kv-quoted"), " supports the answer") if has_quotes else None,
        class_="kv-legend",
    )


def _preview_legend(ratio: str) -> Markup:
    return tag(
        "p",
        tag("span", tag("mark", "Abc"), f" recomputed, also at {ratio}"),
        tag("span", tag("mark", "Abc", class_="kv-dropped"), f" recomputed, not at {ratio}"),
        tag("span", tag("mark", "Abc", class_="kv-added"), f" only at {ratio}"),
        class_="kv-legend",
    )


def _card(source: Source, quotes: Sequence[Span], preview: MarkedPassage | None, has_prefill: bool) -> Markup:
    """Return one passage; tier and recomputed tokens are unknown before the prefill."""
    ratio = source.recomputed_tokens / source.tokens if source.tokens else 0.0
    recomputed = f"{source.recomputed_tokens:,} of {count(source.tokens, 'token')} recomputed ({percent(ratio)})"
    if preview is not None:
        recomputed += f", {preview.recomputed_tokens:,} in the preview"
    cited = tag("span", "cited in the answer", class_="kv-cited") if source.cited else None
    return render_passage_card(
        source.rank,
        source.document,
        None if source.page is None else f"from page {source.page}",
        mark_recomputed(source.text_spans, quotes, None if preview is None else preview.text_spans),
        tag("p", recomputed, cited) if has_prefill else None,
        badges=_badges(source, has_prefill),
    )


def _badges(source: Source, has_tier: bool) -> Markup:
    badges = match_badges(source.similarity, source.matched_words)
    if has_tier:
        label, tooltip = _TIERS.get(source.tier, (source.tier, "The source of its keys and values (KV)."))
        if source.cache_result == "exact prefix hit":
            label = f"exact, {label}"
            tooltip += " Exact prefix hit: they were computed after the same preceding passages."
        badges.append(badge(label, tooltip, f"kv-tier kv-tier-{source.tier}"))
    return tag("span", *badges, class_="kv-badges")


def build_source_panel(backend: Backend, tabs: gr.Tabs, *openers: gr.HTML) -> None:
    """Create the closed panel inside the open Blocks.

    It opens when a citation or a button of a passage in one of `openers` is clicked; leaving the page closes it.
    """

    def show(event: gr.EventData) -> Markup:
        chunk, rank, context = (str(event._data.get(name, "")) for name in ("id", "rank", "context"))
        try:
            excerpt = backend.library.excerpt(chunk)
            quote = find_quote(excerpt, context)
            location = tag("p", page_label(excerpt, quote), class_="kv-muted")
            has_pages = excerpt.chunk.page and backend.has_pages(excerpt.chunk.document_id)
            page = join(render_page(excerpt, quote), _AS_TEXT) if has_pages else None
            name = tag("bdi", excerpt.chunk.document_name, class_="kv-document")
            return _panel(rank, name, location, page, render_excerpt(excerpt, quote))
        except Exception as error:  # noqa: BLE001  UI boundary: every error becomes a message, bugs are logged
            title = "Not available yet" if isinstance(error, ModelNotReady) else "No longer available"
            warning = tag("p", user_message(error), class_="kv-warning")
            return _panel(rank, tag("span", title, class_="kv-document"), warning)

    panel = gr.HTML(elem_id="drawer", js_on_load="kvscopeAsk.connectDrawer(element, trigger);")
    for left in (panel.clear, tabs.change):
        left(lambda: "", None, panel, **INSTANT)
    for opener in openers:
        opener.select(show, None, panel, **INSTANT)


def _panel(rank: str, title: Markup, *parts: Markup | None) -> Markup:
    close = tag("button", "\u00d7", type="button", data_close=True, aria_label="Close", title="Close (Esc)")
    head = tag("header", tag("span", rank, class_="kv-rank"), title, close)
    return tag("aside", head, *parts, class_="kv-drawer", tabindex=-1, aria_label=f"Source {rank}")
