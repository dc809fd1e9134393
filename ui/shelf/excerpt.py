"""A passage where it stands: the text of its page, with the passage marked."""

from store.types import Excerpt
from ui.markup import Markup, tag

_CUT = "…"


def marked(excerpt: Excerpt) -> Markup:
    """Return the text with its passage in a `mark`, and a sign where the page goes on."""
    before, after = excerpt.text[: excerpt.start], excerpt.text[excerpt.end :]
    return tag(
        "div",
        f"{_CUT} " if excerpt.cut_before else None,
        before or None,
        tag("mark", excerpt.text[excerpt.start : excerpt.end]),
        after or None,
        f" {_CUT}" if excerpt.cut_after else None,
        class_="kv-excerpt",
        dir="auto",
    )


def place(excerpt: Excerpt) -> str:
    """Return where the passage stands: 'Page 12', or 'Passage 3' where there are no pages."""
    return f"Page {excerpt.chunk.page}" if excerpt.chunk.page else f"Passage {excerpt.chunk.number + 1}"
