"""Assemble the Markdown of a document from what its pages show."""

import logging
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from statistics import quantiles

from store.ingest.pdf.aligned import LEADER, TABLE_CAPTION, Item, find_aligned
from store.ingest.pdf.blocks import NUMBERED, SENTENCE_END, Block, Style, build_blocks, counts_on
from store.ingest.pdf.columns import Box, reading_order
from store.ingest.pdf.lines import BREAK, Segment, build_segments, glue, join_breaks, rows_of, vocabulary_of
from store.ingest.pdf.page import Page, Rule, Word
from store.ingest.pdf.running import without_running_lines
from store.ingest.pdf.tables import Table, ruled_tables
from store.markdown import format_table

PLAIN_WIDTH = 0.5  # of a character, and...
PLAIN_LEADING = 1.2  # ...distance of lines, in font sizes, on pages whose layout is not known
SAME_SIZE = 0.06  # relative difference of the font sizes of headings of one level
MAX_LEVEL = 3
ITEM_NUMBER = re.compile(r" *(\d{1,3})[.)] ")
MAX_SHIFT = 5.0  # points between the columns of a table and those of its continuation

log = logging.getLogger(__name__)


def assemble(pages: Sequence[Page], deadline: float) -> list[tuple[str, str]]:
    """Return each page's Markdown and what separates it from the next page.

    Pages are laid out until the deadline, a time.monotonic(); later ones, and those that fail, become plain text.
    """
    size = usual_style([page.words for page in pages]).size
    words = [page.words or plain_words(page.plain, size) for page in pages]
    heights = [page.height or PLAIN_LEADING * size * (page.plain.count("\n") + 2) for page in pages]
    words = without_running_lines(words, heights, size)
    regions = [_regions(page, rest, deadline) for page, rest in zip(pages, words, strict=True)]
    style = _style_of([region for page in regions for region in page])
    contents = [_blocks(page, parts, style) for page, parts in zip(pages, regions, strict=True)]
    asides = Counter(page.aside for page in pages)
    for page, blocks in zip(pages, contents, strict=True):
        if page.words and page.aside and asides[page.aside] == 1:  # else a watermark
            blocks.append(Block("paragraph", page.aside))
    vocabulary = vocabulary_of(words)
    _format_tables(contents, vocabulary)
    _format_texts([block for blocks in contents for block in blocks], vocabulary)
    return _join_pages(contents, vocabulary)


def plain_words(text: str, size: float) -> list[Word]:
    """Return the words of a text as if it was printed in a font whose characters are equally wide."""
    words: list[Word] = []
    for number, line in enumerate(text.split("\n"), start=1):
        end = 0
        for word in line.split():
            start = line.index(word, end)
            end = start + len(word)
            position = (start * PLAIN_WIDTH * size, end * PLAIN_WIDTH * size, number * PLAIN_LEADING * size)
            words.append(Word(word, *position, size, index=len(words)))
    return words


def usual_style(pages: Iterable[Iterable[Word | Segment]]) -> Style:
    """Return the font size and weight of most characters."""
    sizes, bold = Counter[float](), Counter[bool]()
    for words in pages:
        for word in words:
            sizes[round(2 * word.size) / 2] += len(word.text)
            bold[word.bold] += len(word.text)
    return Style(sizes.most_common(1)[0][0], bold.most_common(1)[0][0]) if sizes else Style()


def _regions(page: Page, words: Sequence[Word], deadline: float) -> list[list[Box]]:
    """Return a page's segments and tables by region, in reading order."""
    if page.words and time.monotonic() < deadline:
        try:
            tables, rest = ruled_tables(words, page.rules)
            boxes: list[Box] = [*build_segments(rest), *tables]
            return reading_order(boxes, page.rules)
        except Exception:
            log.warning("A page's layout could not be analysed", exc_info=True)
    return [[*build_segments(words)]]


def _style_of(regions: Sequence[list[Box]]) -> Style:
    """Return the usual style of the text outside of tables."""
    segments = [[box for box in region if isinstance(box, Segment)] for region in regions]
    style = usual_style(segments)
    distances = [
        distance
        for region in segments
        for above, row in pairwise(rows_of(region))
        if abs(above[0].size - row[0].size) < 0.5 and 0.9 < (distance := _distance(above, row)) < 3
    ]
    leading = quantiles(distances, n=10)[2] if len(distances) > 1 else style.leading
    return Style(style.size, style.bold, leading)


def _distance(above: Sequence[Segment], row: Sequence[Segment]) -> float:
    return (row[0].baseline - above[0].baseline) / row[0].size


def _blocks(page: Page, regions: Sequence[list[Box]], style: Style) -> list[Block]:
    """Return the blocks of a page in reading order."""
    blocks: list[Block] = []
    for region in regions:
        try:
            following = build_blocks(_items(region, page.rules), style)
        except Exception:
            log.warning("A page's layout could not be analysed", exc_info=True)
            following = [Block("paragraph", box.text) for box in region if box.text]
        if blocks and following and _goes_on(blocks[-1], following[0]):
            blocks[-1].text += BREAK + following.pop(0).text
        blocks += following
    return list(_with_captions_first(blocks))


def _items(region: list[Box], rules: Sequence[Rule]) -> list[Item]:
    """Return the rows and tables of a region from top to bottom."""
    items: list[Item] = []
    rows = rows_of(box for box in region if isinstance(box, Segment))
    for table in sorted((box for box in region if isinstance(box, Table)), key=lambda table: table.top):
        above = [row for row in rows if row[0].baseline < table.top + row[0].size]
        items += [*find_aligned(above, rules), table]
        rows = rows[len(above) :]
    return items + find_aligned(rows, rules)


def _goes_on(block: Block, following: Block) -> bool:
    """Return whether a paragraph goes on in the next column or on the next page."""
    goes_on = following.kind == "paragraph" and following.text[0].islower() and not SENTENCE_END.search(block.text)
    is_text = block.kind in ("paragraph", "list") and abs(block.size - following.size) < 0.5
    return is_text and (goes_on or counts_on(block.text, following.text))


def _with_captions_first(blocks: Sequence[Block]) -> Iterator[Block]:
    """Yield blocks with the captions that stand below a table before it."""
    number, has_caption = 0, False
    while number < len(blocks):
        block = blocks[number]
        below = blocks[number + 1] if number + 1 < len(blocks) else None
        if block.kind == "table" and not has_caption and below and TABLE_CAPTION.match(below.text):
            yield below
            number += 1
        has_caption = bool(TABLE_CAPTION.match(block.text))
        yield block
        number += 1


def _format_tables(pages: Sequence[Sequence[Block]], vocabulary: frozenset[str]) -> None:
    """Set the text of tables; those that go on at the top of the next page share their header."""
    parts: list[Block] = []
    last: Block | None = None
    for blocks in pages:
        for block in blocks:
            if block.table:
                block.table.rows = [[join_breaks(cell, vocabulary) for cell in row] for row in block.table.rows]
                if not (parts and block is blocks[0] and last is parts[-1] and _continues(parts[0].table, block.table)):
                    _format_parts(parts)
                    parts = []
                parts.append(block)
            last = block
    _format_parts(parts)


def _continues(table: Table | None, other: Table) -> bool:
    """Return whether a table on the next page has the same columns and no other header."""
    if not table or len(table.columns) != len(other.columns):
        return False
    is_same_header = table.rows[0] == other.rows[0]
    is_aligned = all(
        start - MAX_SHIFT < other_end and other_start - MAX_SHIFT < end
        for (start, end), (other_start, other_end) in zip(table.columns, other.columns, strict=True)
    )
    return is_aligned and (is_same_header or not other.has_header)


def _format_parts(parts: Sequence[Block]) -> None:
    """Set the text of the parts of one table, each on its page."""
    tables = [part.table for part in parts if part.table]
    if not tables:
        return
    header = tables[0].rows[0]
    rows = [tables[0].rows, *[table.rows[table.rows[0] == header :] for table in tables[1:]]]
    lines = format_table([row for part in rows for row in part], tables[0].has_header).split("\n")
    for part, own in reversed(list(zip(parts[1:], rows[1:], strict=True))):
        split = len(lines) - sum(map(any, own))
        part.text = "\n".join(lines[split:])
        lines = lines[:split]
    parts[0].text = "\n".join(lines)


def _format_texts(blocks: Sequence[Block], vocabulary: frozenset[str]) -> None:
    """Resolve the line ends in the text of paragraphs, list items and headings, and mark headings."""
    headings = [block for block in blocks if block.kind == "heading"]
    numbered = [block for block in headings if NUMBERED.match(block.text)]
    largest = max((block.size for block in numbered), default=0.0)
    has_title = any(block.size > (1 + SAME_SIZE) * largest for block in headings if block not in numbered)
    sizes: list[float] = []
    for size in sorted((block.size for block in headings), reverse=True):
        if not sizes or size < (1 - SAME_SIZE) * sizes[-1]:
            sizes.append(size)
    for block in blocks:
        if block.kind == "table":
            continue
        text = join_breaks(block.text, vocabulary)
        block.text = LEADER.sub(_short_leader, text)
        if block.kind == "heading":
            number = NUMBERED.match(block.text)
            rank = sum(size > (1 + SAME_SIZE) * block.size for size in sizes)
            level = has_title + number[1].count(".") if number else rank
            block.text = f"{'#' * min(level + 1, MAX_LEVEL)} {block.text}"


def _short_leader(match: re.Match[str]) -> str:
    return "___ " if "_" in match[0] else "... "


def _join_pages(pages: Sequence[Sequence[Block]], vocabulary: frozenset[str]) -> list[tuple[str, str]]:
    """Return each page's text and what separates it from the next one."""
    result: list[tuple[str, str]] = []
    for number, blocks in enumerate(pages):
        blocks = [block for block in blocks if block.text]
        text = blocks[0].text if blocks else ""
        for above, block in pairwise(blocks):
            text += ("\n" if above.kind == block.kind == "list" else "\n\n") + block.text
        following = pages[number + 1] if number + 1 < len(pages) else []
        if blocks and following and _goes_on(blocks[-1], following[0]):
            result.append(glue(text, following[0].text, vocabulary))
        else:
            is_item = bool(blocks and following) and _is_next_item(blocks[-1], following[0])
            result.append((text, "\n" if is_item else "\n\n"))
    return result


def _is_next_item(block: Block, following: Block) -> bool:
    """Return whether a list goes on at the top of the next page with the next number."""
    if not block.kind == following.kind == "list":
        return False
    last, first = ITEM_NUMBER.match(block.text), ITEM_NUMBER.match(following.text)
    return last is not None and first is not None and int(last[1]) + 1 == int(first[1])
