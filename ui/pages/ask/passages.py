"""The passages behind an answer, with the tokens that were computed again for this question marked inside them."""

from collections.abc import Iterable, Sequence
from itertools import groupby

from engine.generation.citations import quoted
from engine.request import Answer, Source, TextSpan
from ui.components.highlights import Span, quoting
from ui.format import count, percent
from ui.html import Markup, join, tag

_TIERS = {
    "device": ("GPU memory", "Its keys and values were already in the GPU's memory."),
    "host": ("memory", "Its keys and values were already in memory."),
    "disk": ("disk", "Its keys and values were read back from disk."),
    "computed": ("computed now", "Seen for the first time: its keys and values were computed and stored."),
    "none": ("no cache", "This method computes every token again and reuses nothing."),
}


# A card shows a few lines of its passage: first those that back the answer.
SHOW_QUOTED = """
new MutationObserver(() => {
    for (const text of element.querySelectorAll('.kv-passage')) {
        const said = text.querySelector('.kv-quoted');
        if (said) text.scrollTop += said.getBoundingClientRect().top - text.getBoundingClientRect().top;
    }
}).observe(element, {childList: true, subtree: true});
"""


def passages(answer: Answer) -> Markup:
    """Return the passages in prompt order, under a legend; nothing where there are none.

    What the answer has marked as its source stands out in them.
    """
    if not answer.sources:
        return Markup("")
    quotes: list[list[Span]] = [[] for _ in answer.sources]
    for rank, start, end in quoted(answer.text, [source.text for source in answer.sources]):
        quotes[rank - 1].append((start, end))
    computed = answer.trace.ttft_ms is not None
    cards = (_card(source, quote, computed) for source, quote in zip(answer.sources, quotes, strict=True))
    title = tag("h3", f"Passages read · {len(answer.sources)}")
    head = tag("div", title, _legend(any(quotes)), class_="kv-passages-head")
    return tag("section", head, tag("ol", *cards, class_="kv-passages"), aria_label="Passages read")


def marked(pieces: Iterable[TextSpan], quotes: Sequence[Span] = ()) -> Markup:
    """Return a passage's text. Neighbours of one fate share an element, so elements do not grow with tokens.

    quotes  in characters of the passage
    """
    parts, at = [], 0
    for fresh, run in groupby(pieces, _is_fresh):
        text = "".join(piece.text for piece in run)
        shown = quoting(text, [(start - at, end - at) for start, end in quotes])
        parts.append(tag("mark", shown) if fresh else shown)
        at += len(text)
    return join(*parts)


def _is_fresh(piece: TextSpan) -> bool:
    return piece.recomputed


def _legend(quotes: bool) -> Markup:
    return tag(
        "p",
        tag("span", tag("mark", "Abc"), " recomputed for this question"),
        tag("span", tag("span", "Abc", class_="kv-plain"), " reused from cache"),
        tag("span", tag("em", "Abc", class_="kv-quoted"), " backs the answer") if quotes else None,
        class_="kv-legend",
    )


def _card(source: Source, quotes: Sequence[Span], computed: bool) -> Markup:
    """Return one passage; before it was `computed`, nothing is known of what came from where."""
    place = None if source.page is None else tag("span", f"from page {source.page}", class_="kv-page")
    share = source.recomputed / source.tokens if source.tokens else 0.0
    fresh = f"{source.recomputed:,} of {count(source.tokens, 'token')} recomputed ({percent(share)})"
    return tag(
        "li",
        tag(
            "div",
            tag("span", source.rank, class_="kv-rank", aria_label=f"Passage {source.rank}"),
            tag("bdi", source.document, class_="kv-document", title=source.document),
            place,
            tag("span", _similarity(source), _tier(source) if computed else None, class_="kv-badges"),
            class_="kv-card-head",
        ),
        tag(
            "div",
            marked(source.pieces, quotes),
            class_="kv-passage",
            dir="auto",
            tabindex=0,
            role="region",
            aria_label=f"Text of passage {source.rank}",
        ),
        tag("p", fresh, tag("span", "cited in the answer", class_="kv-cited") if source.cited else None)
        if computed
        else None,
        id=f"source-{source.rank}",
        class_="kv-card",
    )


def _similarity(source: Source) -> Markup:
    meaning = "Similarity of meaning between question and passage (cosine): 1.00 is identical."
    words = "The question's own words were found in it."
    return join(
        None
        if source.similarity is None
        else tag("span", f"{source.similarity:.2f}", class_="kv-badge kv-number", title=meaning, tabindex=0),
        tag("span", "words", class_="kv-badge", title=words, tabindex=0) if source.matched_words else None,
    )


def _tier(source: Source) -> Markup:
    label, meaning = _TIERS.get(source.tier, (source.tier, "Where its keys and values came from."))
    if source.found == "exact prefix hit":
        label, meaning = (
            f"exact, {label}",
            f"{meaning} The same passages stood before it then.",
        )
    return tag("span", label, class_=f"kv-badge kv-tier kv-tier-{source.tier}", title=meaning, tabindex=0)
