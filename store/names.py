"""Names for display: what a person called a file, made safe to show and never used as a path."""

import re
import unicodedata

MAX_LENGTH = 120  # characters
INVISIBLE = re.compile(r"[\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]")  # bidi and kin
UNPRINTABLE = {"Cc", "Cs", "Co", "Cn", "Zl", "Zp"}  # Unicode categories
DEFAULT_NAME = "document"


def clean_name(name: str) -> str:
    """Return the last part of a path of any system, visible characters only, at most 120 of them, never empty.

    A direction override could show `exe.pdf` for `fdp.exe`, so those characters go. The extension survives cutting.
    """
    last = re.split(r"[/\\]", name)[-1]
    seen = "".join(letter for letter in last if unicodedata.category(letter) not in UNPRINTABLE)
    clean = " ".join(INVISIBLE.sub("", seen).split())
    if not clean.strip(". "):
        return DEFAULT_NAME
    return clean if len(clean) <= MAX_LENGTH else _shortened(clean)


def unique_name(name: str, taken: set[str]) -> str:
    """Return the name, or the first of `name (2).pdf`, `name (3).pdf`, ... that is not taken."""
    stem, suffix = _split(name)
    candidate, number = name, 1
    while candidate in taken:
        number += 1
        candidate = f"{stem} ({number}){suffix}"
    return candidate


def _shortened(name: str) -> str:
    stem, suffix = _split(name)
    return f"{stem[: MAX_LENGTH - len(suffix) - 1].rstrip()}…{suffix}"


def _split(name: str) -> tuple[str, str]:
    stem, dot, suffix = name.rpartition(".")
    if not stem or not dot or len(suffix) > 12:
        return name, ""
    return stem, f".{suffix}"
