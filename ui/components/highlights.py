"""Text with what an answer quotes of it standing out."""

from collections.abc import Iterable

from ui.html import Markup, join, tag

Span = tuple[int, int]  # start and end, in characters


def quoting(text: str, quotes: Iterable[Span]) -> Markup:
    """Return the text, its quotes in elements of their own; what of a quote lies outside the text is cut off."""
    parts: list[Markup | str] = []
    done = 0
    for start, end in sorted(quotes):
        start, end = max(start, done), min(end, len(text))
        if start < end:
            parts += [text[done:start], tag("em", text[start:end], class_="kv-quoted")]
            done = end
    return join(*parts, text[done:])
