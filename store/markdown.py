"""The Markdown of parsed documents: headings, lists, and tables whose cells repeat their column's header.

Parsers write a table row as a line of its own, `| Model: A10 | Weight: 151 kg |`, so that search and reader
understand it without the rows above it, wherever a chunk starts.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.*)")  # the title, and what may close it: HEADING_END
HEADING_END = " \t#"
LIST_ITEM = re.compile(r"[ \t]*(?:[-*+\u2022\u2013\u25aa]|\(?(?:\d{1,3}|[a-zA-Z])[.)])[ \t]+(?=\S)")
TABLE_ROW = re.compile(r"\| .* \|$")
CELL_END = re.compile(r"(?<!\\) \| ")
VALUE = re.compile(r"[^\w(]*[-\u2212+(]?\d[\d\s.,:/%\u2013-]*(?:\w{1,4}\W*)?$")  # '-1,250.5', '12 %', '151 kg'
PERIOD = re.compile(r"(?:FY ?|Q[1-4][ /]?)?(?:19|20)\d\d(?:[/\u2013-]\d{2,4})?|Q[1-4]")  # a header though it has digits
DIGITS = re.compile(r"\W*\d[\d\W]*")
GROUP_END = ":"  # of the name of a group of rows
MAX_HEADER_CHARS = 80
MAX_CAPTION_CHARS = 200  # of the line above a table or list


@dataclass(frozen=True, slots=True)
class Block:
    """Lines of one kind: `text[start:end]`, without the line end."""

    kind: str  # 'heading', 'table', 'list' or 'paragraph'
    start: int
    end: int


def format_table(rows: Sequence[Sequence[str]], has_header: bool | None = None, has_groups: bool = True) -> str:
    """Return a table as one line per row, each cell after its column's header; '' without text.

    `has_header` says whether the first row is a header; None if the format does not tell, which decides by the cells. A
    table of two columns without a header is one of labels and values. A row with a first cell only may be the name of a
    group, which is put before the first cell of the rows below it: if the table begins with one, or if the name ends
    with a colon; never if `has_groups` is False. Others are rows whose other cells are blank.
    """
    table = _without_blank([[_clean(cell) for cell in row] for row in rows])
    if not table:
        return ""
    header = [""] * len(table[0])
    if has_header or (has_header is None and _looks_like_header(table)):
        header, *table = table
    elif len(header) == 2:
        return "\n".join(
            format_row([(label, value)] if label and value else [("", label or value)]) for label, value in table
        )
    if not table:  # a form to fill in
        return format_row([("", name) for name in header if name])
    begins_with_group = not any(table[0][1:])
    lines, group = [], ""
    for first, *others in table:
        is_alone = first and others and not any(others)
        if has_groups and is_alone and (begins_with_group or first.endswith(GROUP_END)):
            group = first.removesuffix(GROUP_END)
            lines.append(format_row([("", first)]))
            continue
        label = ", ".join(filter(None, [group, first]))
        cells = zip(header, [label, *others], strict=True)
        lines.append(format_row([(name, value) for name, value in cells if value]))
    return "\n".join(lines)


def format_row(cells: Iterable[tuple[str, str]]) -> str:
    """Return cells, each a header (or '') and a value, as the line of a table row."""
    return f"| {' | '.join(f'{header}: {value}' if header else value for header, value in cells)} |"


def parse_row(line: str) -> list[tuple[str, str]] | None:
    """Return the cells of a table row as (header or '', value); None if the line is not one."""
    if not TABLE_ROW.match(line):
        return None
    cells = (cell.partition(": ") for cell in CELL_END.split(line[2:-2]))
    return [(before, after) if after else ("", before) for before, _, after in cells]


def split_blocks(text: str) -> list[Block]:
    """Return the blocks of a text in order. A list keeps the lines that its items wrap over, and its sub-lists."""
    blocks: list[Block] = []
    offset, previous = 0, ""
    for line in text.split("\n"):
        kind = _kind_of(line, previous)
        if kind and kind == previous and kind != "heading":
            blocks[-1] = Block(kind, blocks[-1].start, offset + len(line))
        elif kind:
            blocks.append(Block(kind, offset, offset + len(line)))
        previous = kind
        offset += len(line) + 1
    return _join_loose_lists(blocks, text)


def contexts_at(text: str, offsets: Sequence[int]) -> list[tuple[str, ...]]:
    """Return what a reader needs to know before each of the ascending offsets: headings, outermost first, and caption.

    These are the headings of the sections around it, and the line above the list or table that it lies inside of.
    """
    contexts: list[tuple[str, ...]] = []
    path: list[tuple[int, str]] = []
    blocks = [*split_blocks(text), Block("end", len(text), len(text))]
    for index, block in enumerate(blocks):
        while len(contexts) < len(offsets) and (block.kind == "end" or offsets[len(contexts)] < block.end):
            caption = ""
            if block.kind in ("list", "table") and index and offsets[len(contexts)] > block.start:
                above = blocks[index - 1]
                is_short = above.end - above.start <= MAX_CAPTION_CHARS
                caption = text[above.start : above.end] if above.kind == "paragraph" and is_short else ""
            level = _heading(text, block)[0] if block.kind == "heading" else 7
            contexts.append(tuple(title for other, title in [*path, (0, caption)] if title and other < level))
        if block.kind == "heading":
            level, title = _heading(text, block)
            path = [(other, outer) for other, outer in path if other < level] + [(level, title)]
    return contexts


def _heading(text: str, block: Block) -> tuple[int, str]:
    """Return level and title of a heading."""
    match = HEADING.match(text[block.start : block.end])
    return (len(match[1]), match[2].rstrip(HEADING_END)) if match else (7, "")


def _kind_of(line: str, previous: str) -> str:
    """Return the kind of the block a line belongs to, after a line of kind `previous`; '' for a blank line."""
    if not line.strip():
        return ""
    if TABLE_ROW.match(line):
        return "table"
    if HEADING.match(line):
        return "heading"
    if LIST_ITEM.match(line):
        return "list"
    return "list" if previous == "list" and line[0] in " \t" else "paragraph"


def _join_loose_lists(blocks: Sequence[Block], text: str) -> list[Block]:
    """Join lists whose items are separated by blank lines."""
    joined: list[Block] = []
    for block in blocks:
        last = joined[-1] if joined else None
        if last and last.kind == block.kind == "list" and not text[last.end : block.start].strip():
            joined[-1] = Block("list", last.start, block.end)
        else:
            joined.append(block)
    return joined


def _clean(cell: str) -> str:
    return " ".join((cell or "").split()).replace(" | ", " / ").strip("|").strip()


def _without_blank(table: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return a table of equally long rows without rows and columns that are blank."""
    width = max(map(len, table), default=0)
    rows = [[*row, *[""] * (width - len(row))] for row in table if any(row)]
    used = [column for column in range(width) if any(row[column] for row in rows)]
    return [[row[column] for column in used] for row in rows]


def _is_like_others(cell: str, others: Sequence[str]) -> bool:
    """Return whether a cell has the words of most of its column's others, with other numbers: 'room 12, ext. 4'.

    Two numbers at least: 'Week 1' and 'Team 2' may be headers.
    """
    words, num_numbers = DIGITS.subn("0", cell)
    is_same = [DIGITS.sub("0", other) == words for other in others]
    return num_numbers > 1 and sum(is_same) * 2 >= len(is_same)


def _looks_like_header(table: Sequence[Sequence[str]]) -> bool:
    """Return whether the first row is a header: short texts or periods over columns of values."""
    first, *others = table
    if len(table) < 2 or any(len(cell) > MAX_HEADER_CHARS for cell in first) or sum(map(bool, first)) < len(first) - 1:
        return False
    if any(VALUE.match(cell) and not PERIOD.fullmatch(cell) for cell in first):
        return False
    if any(map(_is_like_others, first, zip(*others, strict=True))):
        return False
    columns = list(zip(*others, strict=True))[1:]
    has_values = any(sum(bool(VALUE.match(cell)) for cell in column) * 2 > len(column) for column in columns)
    return has_values or len(first) > 2
