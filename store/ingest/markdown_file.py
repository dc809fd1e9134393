"""Parse Markdown files: tables and headings as `store.markdown` defines them, all else unchanged."""

import re
from collections.abc import Iterator

from store.ingest.document import ParsedDocument
from store.ingest.text import decode, normalize
from store.limits import Limits
from store.markdown import format_table

FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
DELIMITER_ROW = re.compile(r" {0,3}\|?\s*:?-+:?\s*+(?:\|\s*:?-+:?\s*+)*\|?\s*$")
CELL_END = re.compile(r"(?<!\\)\|")
CODE = ("    ", "\t")  # starts of a line of code
LINE_BREAK = re.compile(r" *<br ?/?> *", re.I)
UNDERLINE = re.compile(r" {0,3}(=+|-{2,})\s*$")
NO_TITLE = re.compile(r"\s|[>|#*+-]|\d+[.)]")  # starts of a line that no underline turns into a heading
FRONT_MATTER = re.compile(r"---\n.*?\n(?:---|\.\.\.)(?:\n|$)", re.S)


def parse_markdown(data: bytes, name: str, limits: Limits) -> ParsedDocument:
    """Return the text, each table row with its header. Raises UnreadableDocument if it is not text."""
    text, warning = decode(data, name)
    return ParsedDocument(convert_markdown(normalize(text)), warning=warning)


def convert_markdown(text: str) -> str:
    """Return Markdown with its tables and headings as `store.markdown` defines them."""
    front = FRONT_MATTER.match(text)
    start = front.end() if front else 0
    return text[:start] + "\n".join(_convert(text[start:].split("\n")))


def _convert(lines: list[str]) -> Iterator[str]:
    fence, index = "", 0
    while index < len(lines):
        line, below = lines[index], lines[index + 1] if index + 1 < len(lines) else ""
        marker = FENCE.match(line)
        index += 1
        if marker and (not fence or marker[1].startswith(fence)):
            fence = "" if fence else marker[1]
            yield line
        elif fence or not line.strip():
            yield line
        elif (
            "|" in line
            and "|" in below
            and not line.startswith(CODE)
            and DELIMITER_ROW.match(below)
            and len(_cells(line)) == len(_cells(below))
        ):
            end = index + 1
            while end < len(lines) and "|" in lines[end]:
                end += 1
            header = _cells(line)
            yield format_table([header, *map(_cells, lines[index + 1 : end])], has_header=any(header))
            index = end
        elif (underline := UNDERLINE.match(below)) and not NO_TITLE.match(line):
            yield f"{'#' if underline[1][0] == '=' else '##'} {line.strip()}"
            index += 1
        else:
            yield line


def _cells(row: str) -> list[str]:
    row = row.strip().removeprefix("|")
    cells = CELL_END.split(row.removesuffix("|") if not row.endswith("\\|") else row)
    return [LINE_BREAK.sub(" ", cell.strip().replace("\\|", "|")) for cell in cells]
