"""What the parsers of tables share: merged cells, title rows above a table, and headers of several rows."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from store.markdown import GROUP_END, format_table


@dataclass(frozen=True, slots=True)
class Merge:
    """Merged cells of a table: rows and columns from 0, the ends included."""

    top: int
    left: int
    bottom: int
    right: int


def fill_merged(grid: Sequence[list[str]], merges: Iterable[Merge], num_headers: int | None) -> None:
    """Repeat the text of merged cells in each of them, but not that of a title, or of a label, in further columns."""
    for merge in merges:
        row = grid[merge.top]
        is_title = not any(row[merge.right + 1 :])
        is_label = merge.left == 0 and (is_title or merge.top >= (num_headers or 0))
        end = merge.left + 1 if is_label else merge.right + 1
        for cells in grid[merge.top : merge.bottom + 1]:
            cells[merge.left : end] = [row[merge.left]] * len(cells[merge.left : end])
        if merge.left == 0 < merge.right == len(row) - 1 and merge.top >= (num_headers or 1):
            mark_group(row)


def mark_group(row: list[str]) -> None:
    """Mark a row with a first cell only as the name of the rows below it, as `format_table` knows it."""
    row[0] = row[0] and row[0].removesuffix(GROUP_END) + GROUP_END


def format_grid(rows: Sequence[Sequence[str]], num_headers: int | None = None) -> str:
    """Return a table with equally long rows as Markdown, its title rows as lines above it.

    `num_headers` counts the rows at the start that are titles or header; None if the format does not tell.
    """
    if num_headers:
        num_headers -= sum(not any(row) for row in rows[:num_headers])
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
