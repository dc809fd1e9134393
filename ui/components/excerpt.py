"""Passages as HTML: cards, a passage in its surrounding text, and highlighted quotes."""

from urllib.parse import urlencode

from engine.generation.citations import quoted_spans
from store.types import Excerpt
from ui.components.document_text import Span, render_document_text
from ui.html import Markup, tag

_SIMILARITY = "Cosine similarity of the embeddings of the question and of the passage's closest part; higher is closer."


def render_excerpt(excerpt: Excerpt, quote: Span | None = None) -> Markup:
    """Return the surrounding text with the passage in a `mark`, the quote highlighted in it, and ellipses where cut."""
    return tag(
        "div",
        "… " if excerpt.truncated_before else None,
        render_document_text(excerpt.text[: excerpt.start]),
        tag("mark", render_document_text(excerpt.chunk.text, [quote] if quote else [])),
        render_document_text(excerpt.text[excerpt.end :]),
        " …" if excerpt.truncated_after else None,
        class_="kv-excerpt",
        dir="auto",
        translate="no",
    )


def render_passage_card(
    rank: int,
    document: str,
    page: str | None,
    text: Markup,
    footer: Markup | None,
    badges: Markup | None = None,
    curves: Markup | None = None,
) -> Markup:
    """Return a passage as a list item: rank, document, page and badges, then curves, text and footer."""
    head = tag(
        "div",
        tag("span", rank, class_="kv-rank", aria_label=f"Passage {rank}"),
        tag("bdi", document, class_="kv-document", title=document),
        tag("span", page, class_="kv-page") if page else None,
        badges,
        class_="kv-card-head",
    )
    return tag("li", head, curves, render_text(text, f"Text of passage {rank}"), footer, class_="kv-card")


def match_badges(similarity: float | None, matched_words: bool) -> list[Markup]:
    """Return badges that say how the search found a passage."""
    badges = []
    if similarity is not None:
        badges.append(badge(f"{similarity:.2f}", _SIMILARITY, "kv-number"))
    if matched_words:
        badges.append(badge("words", "Also found by keyword search (BM25)."))
    return badges


def badge(label: str, tooltip: str, extra_class: str = "") -> Markup:
    """Return a small label with a tooltip."""
    return tag("span", label, class_=f"kv-badge {extra_class}".strip(), title=tooltip, tabindex=0)


def render_text(text: str, label: str) -> Markup:
    """Return a passage's text in a box that scrolls."""
    content = tag("div", text, dir="auto", translate="no")
    return tag("div", content, class_="kv-passage", tabindex=0, role="region", aria_label=label)


def render_page(excerpt: Excerpt, quote: Span | None = None) -> Markup:
    """Return the page of the quote, or else of the passage, as a picture in which it is marked."""
    start, end = quote or (0, len(excerpt.chunk.text))
    page = excerpt.page_at(excerpt.start + start) or excerpt.chunk.page
    query = urlencode({"chunk": excerpt.chunk.id, "page": page, "quote": excerpt.chunk.text[start:end]})
    picture = tag("img", src=f"page.png?{query}", alt=f"Page {page} of the document, with the cited text marked")
    zoom = tag("button", "Zoom", type="button", data_zoom=True, aria_pressed="false")
    return tag("figure", zoom, tag("div", picture, tabindex=0, role="region", aria_label="Page"), class_="kv-original")


def page_label(excerpt: Excerpt, quote: Span | None = None) -> str:
    """Return the page of the quote, or else of the passage: 'Page 12', 'Pages 3-4', 'Passage 3'."""
    if not excerpt.chunk.page:
        return f"Passage {excerpt.chunk.index + 1}"
    if quote is not None:
        return f"Page {excerpt.page_at(excerpt.start + quote[0]) or excerpt.chunk.page}"
    last = excerpt.page_at(excerpt.end - 1) or excerpt.chunk.page
    return f"Page {last}" if last == excerpt.chunk.page else f"Pages {excerpt.chunk.page}\u2013{last}"


def find_quote(excerpt: Excerpt, answer: str) -> Span | None:
    """Return the span of the passage that supports the last sentence of `answer`; None if there is none."""
    return next(((start, end) for _, start, end in quoted_spans(f"{answer} [1]", [excerpt.chunk.text])), None)
