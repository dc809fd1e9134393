"""Display names of documents and collections: any file name made safe to show. They are never used as a path."""

import re
import unicodedata
from itertools import chain, count

MAX_LENGTH = 120  # characters
MAX_LABEL_LENGTH = 60
MAX_SUFFIX_LENGTH = 12  # characters; a longer one is part of the name
INVISIBLE = re.compile(r"[\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]")  # bidi controls etc.
UNPRINTABLE = {"Cc", "Cs", "Co", "Cn", "Zl", "Zp"}  # Unicode categories


def clean_name(name: str) -> str:
    """Return the last part of a path of any system: visible characters only, at most 120 of them, never empty.

    Bidi overrides are removed because they can show `exe.pdf` for `fdp.exe`. A shortened name keeps its extension.
    """
    clean = visible(re.split(r"[/\\]", name)[-1])
    if not clean.strip(". "):
        return "document"
    if len(clean) <= MAX_LENGTH:
        return clean
    stem, suffix = split_suffix(clean)
    return f"{stem[: MAX_LENGTH - len(suffix) - 1].rstrip()}…{suffix}"


def clean_label(label: str) -> str:
    """Return a label's visible characters on one line, at most 60 of them; empty if there are none."""
    return visible(label)[:MAX_LABEL_LENGTH].rstrip()


def unique_name(name: str, existing: set[str]) -> str:
    """Return the name, or the first of `name (2).pdf`, `name (3).pdf`, ... that does not exist yet."""
    stem, suffix = split_suffix(name)
    numbered = (f"{stem} ({number}){suffix}" for number in count(2))
    return next(candidate for candidate in chain([name], numbered) if candidate not in existing)


def split_suffix(name: str) -> tuple[str, str]:
    """Return a name without its suffix, and the suffix with its dot; '' if there is none."""
    stem, _, suffix = name.rpartition(".")
    if not stem or len(suffix) > MAX_SUFFIX_LENGTH:
        return name, ""
    return stem, f".{suffix}"


def visible(text: str) -> str:
    """Return a text on one line without control characters, bidi controls and other invisible ones."""
    printable = "".join(letter for letter in text if unicodedata.category(letter) not in UNPRINTABLE)
    return " ".join(INVISIBLE.sub("", printable).split())
