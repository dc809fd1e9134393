"""Markdown from data: characters of texts, names and questions are escaped, so that they never act as markup."""

import re

from engine.text import CITATION_MARK

_CITATION = re.compile(CITATION_MARK.pattern + r"(?!\()")  # "[1](" would be a link
_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|!~&$])")
_LINE_START = re.compile(r"^(\d{1,9}(?=[.)])|(?=[-+=:]))")  # list items, setext headings, tables


def escape_line(text: str) -> str:
    """Return a text as one line of Markdown; citations stay as they are."""
    parts = _CITATION.split(" ".join(text.split()))
    return "".join(f"[{part}]" if index % 2 else _MARKUP.sub(r"\\\1", part) for index, part in enumerate(parts))


def escape_block(text: str) -> str:
    """Return a text of several lines as Markdown paragraphs."""
    return "\n".join(_LINE_START.sub(r"\1\\", escape_line(line)) for line in text.splitlines()).strip("\n")
