"""Markdown from data: texts, names and questions are words in it, never its markup."""

import re

from engine.text import CITATION_MARK

_CITATION = re.compile(CITATION_MARK.pattern + r"(?!\()")  # before ( the same brackets would make a link of it
_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|!~&$])")
_OPENING = re.compile(r"^(\d{1,9}(?=[.)])|(?=[-+=:]))")  # of a list, a line under a heading, a table


def line(text: str) -> str:
    """Return a text as one line of Markdown that reads like it; its citations stay as they are."""
    parts = _CITATION.split(" ".join(text.split()))
    return "".join(f"[{part}]" if place % 2 else _MARKUP.sub(r"\\\1", part) for place, part in enumerate(parts))


def block(text: str) -> str:
    """Return a text of any number of lines as paragraphs of Markdown."""
    return "\n".join(_OPENING.sub(r"\1\\", line(each)) for each in text.splitlines()).strip("\n")
