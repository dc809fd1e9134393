"""A passage where it stands: the text of its page, with the passage marked, and in it what an answer quotes."""

from engine.generation.citations import quoted
from store.types import Excerpt
from ui.components.highlights import Span, quoting
from ui.html import Markup, tag

_CUT = "…"


def marked(excerpt: Excerpt, quote: Span | None = None) -> Markup:
    """Return the text with its passage in a `mark`, the quote in it, and a sign where the page goes on."""
    before, after = excerpt.text[: excerpt.start], excerpt.text[excerpt.end :]
    return tag(
        "div",
        f"{_CUT} " if excerpt.cut_before else None,
        before or None,
        tag("mark", quoting(excerpt.chunk.text, [quote] if quote else [])),
        after or None,
        f" {_CUT}" if excerpt.cut_after else None,
        class_="kv-excerpt",
        dir="auto",
    )


def place(excerpt: Excerpt, quote: Span | None = None) -> str:
    """Return where the passage stands, or the quote from it: 'Page 12', 'Pages 3-4', 'Passage 3'."""
    if not excerpt.chunk.page:
        return f"Passage {excerpt.chunk.number + 1}"
    if quote is not None:
        return f"Page {excerpt.page_at(excerpt.start + quote[0]) or excerpt.chunk.page}"
    last = excerpt.page_at(excerpt.end - 1) or excerpt.chunk.page
    return f"Page {last}" if last == excerpt.chunk.page else f"Pages {excerpt.chunk.page}\u2013{last}"


def backing(excerpt: Excerpt, said: str) -> Span | None:
    """Return where the passage backs the last sentence of what an answer said; None if nowhere."""
    return next(((start, end) for _, start, end in quoted(f"{said} [1]", [excerpt.chunk.text])), None)
