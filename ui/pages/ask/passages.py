"""Retrieved passages as HTML, with recomputed tokens and quoted sentences highlighted."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter

from engine.generation.citations import quoted_spans
from engine.request import Answer, Source, TextSpan
from ui.components.excerpt import Span, highlight_quotes, render_passage_card
from ui.components.tiers import TIERS
from ui.format import count, percent
from ui.html import Markup, join, tag

_TIERS = {name: (tier.noun, tier.reused) for name, tier in TIERS.items()} | {
    "computed": ("computed now", "Not cached before: its keys and values (KV) were computed and stored."),
    "none": ("no cache", "This method recomputes every token and reuses nothing."),
}
# A card shows a few lines of its passage: scroll to the quoted sentence.
SHOW_QUOTED = """
new MutationObserver(() => {
    for (const text of element.querySelectorAll('.kv-passage')) {
        const quote = text.querySelector('.kv-quoted');
        if (quote) text.scrollTop += quote.getBoundingClientRect().top - text.getBoundingClientRect().top;
    }
}).observe(element, {childList: true, subtree: true});
"""


def render_passages(answer: Answer) -> Markup:
    """Return the passages in prompt order, with the sentences that the answer cites highlighted."""
    if not answer.sources:
        return Markup("")
    quotes: list[list[Span]] = [[] for _ in answer.sources]
    for rank, start, end in quoted_spans(answer.text, [source.text for source in answer.sources]):
        quotes[rank - 1].append((start, end))
    has_prefill = answer.trace.ttft_ms is not None
    cards = (_card(source, spans, has_prefill) for source, spans in zip(answer.sources, quotes, strict=True))
    title = tag("h3", f"Retrieved passages · {len(answer.sources)}")
    head = tag("div", title, _legend(any(quotes)), class_="kv-passages-head")
    return tag("section", head, tag("ol", *cards, class_="kv-passages"), aria_label="Retrieved passages")


def mark_recomputed(spans: Iterable[TextSpan], quotes: Sequence[Span] = ()) -> Markup:
    """Return a passage's text with recomputed runs marked; neighbouring spans share one element.

    quotes  in characters of the passage
    """
    parts = []
    offset = 0
    for recomputed, run in groupby(spans, attrgetter("recomputed")):
        text = "".join(span.text for span in run)
        highlighted = highlight_quotes(text, [(start - offset, end - offset) for start, end in quotes])
        parts.append(tag("mark", highlighted) if recomputed else highlighted)
        offset += len(text)
    return join(*parts)


def _legend(has_quotes: bool) -> Markup:
    return tag(
        "p",
        tag("span", tag("mark", "Abc"), " recomputed for this question"),
        tag("span", tag("span", "Abc", class_="kv-plain"), " reused from cache"),
        tag("span", tag("em", "Abc", class_="kv-quoted"), " supports the answer") if has_quotes else None,
        class_="kv-legend",
    )


def _card(source: Source, quotes: Sequence[Span], has_prefill: bool) -> Markup:
    """Return one passage; tier and recomputed tokens are unknown before the prefill."""
    ratio = source.recomputed_tokens / source.tokens if source.tokens else 0.0
    recomputed = f"{source.recomputed_tokens:,} of {count(source.tokens, 'token')} recomputed ({percent(ratio)})"
    cited = tag("span", "cited in the answer", class_="kv-cited") if source.cited else None
    return render_passage_card(
        source.rank,
        source.document,
        None if source.page is None else f"from page {source.page}",
        mark_recomputed(source.text_spans, quotes),
        tag("p", recomputed, cited) if has_prefill else None,
        badges=tag("span", _retrieval_badges(source), _tier_badge(source) if has_prefill else None, class_="kv-badges"),
    )


def _retrieval_badges(source: Source) -> Markup:
    similarity = "Cosine similarity of the embeddings of question and passage; 1.00 is identical."
    words = "Also found by keyword search (BM25)."
    return join(
        None
        if source.similarity is None
        else tag("span", f"{source.similarity:.2f}", class_="kv-badge kv-number", title=similarity, tabindex=0),
        tag("span", "words", class_="kv-badge", title=words, tabindex=0) if source.matched_words else None,
    )


def _tier_badge(source: Source) -> Markup:
    label, tooltip = _TIERS.get(source.tier, (source.tier, "The source of its keys and values (KV)."))
    if source.cache_result == "exact prefix hit":
        label = f"exact, {label}"
        tooltip += " Exact prefix hit: they were computed after the same preceding passages."
    return tag("span", label, class_=f"kv-badge kv-tier kv-tier-{source.tier}", title=tooltip, tabindex=0)
