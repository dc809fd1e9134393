"""The text of a document as HTML: its table rows as tables, and quotes highlighted."""

from collections.abc import Iterable, Sequence

from store.markdown import parse_row, split_blocks
from ui.html import Markup, join, tag

Span = tuple[int, int]  # start and end, in characters


def render_document_text(text: str, quotes: Iterable[Span] = ()) -> Markup:
    """Return a text with its tables as tables, and each quote highlighted; a quoted table row as a whole."""
    quotes = list(quotes)
    parts = []
    done = 0
    for block in split_blocks(text):
        if block.kind == "table":
            parts.append(highlight_quotes(text[done : block.start], _shift(quotes, done)))
            parts.append(_table(text[block.start : block.end].split("\n"), _shift(quotes, block.start)))
            done = block.end
    return join(*parts, highlight_quotes(text[done:], _shift(quotes, done)))


def highlight_quotes(text: str, quotes: Iterable[Span]) -> Markup:
    """Return the text with each quote in an element of its own; parts of a quote outside the text are ignored."""
    parts: list[Markup | str] = []
    done = 0
    for start, end in sorted(quotes):
        start, end = max(start, done), min(end, len(text))
        if start < end:
            parts += [text[done:start], tag("em", text[start:end], class_="kv-quoted")]
            done = end
    return join(*parts, text[done:])


def _shift(quotes: Iterable[Span], offset: int) -> list[Span]:
    return [(start - offset, end - offset) for start, end in quotes]


def _table(lines: Sequence[str], quotes: Sequence[Span]) -> Markup:
    """Return table rows as a table: its header row from the cells' headers, or labels before values."""
    rows = []
    offset = 0
    for line in lines:
        is_quoted = any(start < offset + len(line) and end > offset for start, end in quotes)
        rows.append((parse_row(line) or [("", line)], "kv-quoted-row" if is_quoted else None))
        offset += len(line) + 1
    columns = list(dict.fromkeys(name for cells, _ in rows for name, _ in cells))
    if all(len(cells) == 1 for cells, _ in rows):
        body = (
            tag(
                "tr",
                tag("th", cells[0][0], scope="row") if cells[0][0] else None,
                tag("td", cells[0][1]),
                class_=quoted,
            )
            for cells, quoted in rows
        )
        return tag("table", tag("tbody", *body), class_="kv-document-table")
    head = tag("tr", *(tag("th", name, scope="col") for name in columns)) if any(columns) else None
    body = (tag("tr", *(tag("td", dict(cells).get(name)) for name in columns), class_=quoted) for cells, quoted in rows)
    return tag("table", tag("thead", head) if head else None, tag("tbody", *body), class_="kv-document-table")
