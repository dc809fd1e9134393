"""A passage where it stands: the text of its page, with the passage marked, and in it what an answer quotes."""

from engine.cite import quoted
from store.types import Excerpt
from ui.markup import Markup, tag

_CUT = "…"


def marked(excerpt: Excerpt, said: str = "") -> Markup:
    """Return the text with its passage in a `mark`, and a sign where the page goes on.

    said  of an answer: the passage's sentence that backs its last sentence stands out
    """
    before, after = excerpt.text[: excerpt.start], excerpt.text[excerpt.end :]
    return tag(
        "div",
        f"{_CUT} " if excerpt.cut_before else None,
        before or None,
        tag("mark", *_passage(excerpt, said)),
        after or None,
        f" {_CUT}" if excerpt.cut_after else None,
        class_="kv-excerpt",
        dir="auto",
    )


def place(excerpt: Excerpt, said: str = "") -> str:
    """Return where the passage stands, or what it says of what was `said`: 'Page 12', 'Pages 3-4', 'Passage 3'."""
    if not excerpt.chunk.page:
        return f"Passage {excerpt.chunk.number + 1}"
    if quote := _backing(excerpt, said):
        return f"Page {excerpt.page_at(excerpt.start + quote[0]) or excerpt.chunk.page}"
    last = excerpt.page_at(excerpt.end - 1) or excerpt.chunk.page
    return f"Page {last}" if last == excerpt.chunk.page else f"Pages {excerpt.chunk.page}\u2013{last}"


def _passage(excerpt: Excerpt, said: str) -> list[Markup | str]:
    text = excerpt.chunk.text
    if (quote := _backing(excerpt, said)) is None:
        return [text]
    start, end = quote
    return [text[:start], tag("em", text[start:end], class_="kv-quoted"), text[end:]]


def _backing(excerpt: Excerpt, said: str) -> tuple[int, int] | None:
    """Return the characters of the passage's sentence that backs what was said; None if none does."""
    return next(((start, end) for _, start, end in quoted(f"{said} [1]", [excerpt.chunk.text])), None)
