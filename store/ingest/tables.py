"""What the parsers of tables share: title rows above a table, and headers of several rows."""

from collections.abc import Sequence

from store.markdown import format_table


def format_grid(rows: Sequence[Sequence[str]], num_headers: int | None = None) -> str:
    """Return a table with equally long rows as Markdown, its title rows as lines above it.

    `num_headers` counts the rows at the start that are titles or header; None if the format does not tell.
    """
    lines = [row for row in rows if any(row)]
    titles = []
    while len(lines) > 1 and _is_title(lines[0], lines[1]):
        titles.append(" ".join(lines.pop(0)[0].split()))
        num_headers = num_headers and num_headers - 1
    if num_headers:
        header = [_join(column) for column in zip(*lines[:num_headers], strict=True)]
        lines = [header, *lines[num_headers:]]
    has_header = None if num_headers is None else num_headers > 0
    return "\n".join(filter(None, [*titles, format_table(lines, has_header)]))


def _is_title(row: Sequence[str], following: Sequence[str]) -> bool:
    return bool(row[0]) and not any(row[1:]) and any(following[1:])


def _join(texts: Sequence[str]) -> str:
    """Return the header of a column, e.g. 'Revenue 2024' of two rows; a merged cell counts once."""
    return " ".join(text for index, text in enumerate(texts) if text and text not in texts[:index])
