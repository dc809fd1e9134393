"""An answer with the words marked in which it differs from another: merged runs, never one element a word."""

import re
from collections.abc import Sequence
from difflib import SequenceMatcher

from engine.analysis.comparison import Passage
from ui.html import Markup, join, tag

GAP = "\u22ef"  # stands where words are left out
_WORDS = re.compile(r"\S+\s*|\s+")
_CITATION = re.compile(r"((?:^|(?<= ))\[\d{1,3}\])")  # as the engine writes it; a run of words may begin with it


def differences(reference: str, other: str, passages: Sequence[Passage] = ()) -> Markup:
    """Return the text of `other`; what `reference` says in the place of a marked run is in its title.

    passages  what [n] in the texts cites
    """
    there, here = _WORDS.findall(reference), _WORDS.findall(other)
    matcher = SequenceMatcher(None, [word.rstrip() for word in there], [word.rstrip() for word in here], autojunk=False)
    parts: list[object] = []
    for kind, a, b, c, d in matcher.get_opcodes():
        was, now = "".join(there[a:b]).strip(), "".join(here[c:d])
        if kind == "equal":
            parts.append(_cited(now, passages))
        elif kind == "delete":
            parts.append(tag("mark", GAP, class_="kv-gap", title=f"Left out: {was}", aria_label="words left out"))
        else:
            body = now.rstrip()
            said = f"Full prefill: {was}" if kind == "replace" else "Not in full prefill's answer"
            parts += [tag("mark", _cited(body, passages), class_="kv-differs", title=said), now[len(body) :]]
    return join(*parts)


def same(reference: str, other: str) -> bool:
    """Return whether two answers have the same words."""
    return reference.split() == other.split()


def _cited(text: str, passages: Sequence[Passage]) -> Markup:
    known = {f"[{passage.rank}]": passage for passage in passages}
    parts: list[object] = []
    for part in _CITATION.split(text):
        if part in known:
            page = "" if known[part].page is None else f", page {known[part].page}"
            where = f"{known[part].document}{page}"
            parts.append(tag("span", part[1:-1], class_="kv-cite", title=where, aria_label=f"Source: {where}"))
        else:
            parts.append(part)
    return join(*parts)
