"""Word-level differences between two answers, marked as merged runs rather than one element per word."""

import re
from collections.abc import Sequence
from difflib import SequenceMatcher

from engine.analysis.comparison import ComparedPassage
from ui.html import Markup, join, tag

GAP = "\u22ef"  # shown in place of missing words
_WORDS = re.compile(r"\S+\s*|\s+")
_CITATION = re.compile(r"((?:^|(?<= ))\[\d{1,3}\])")  # as the engine writes them; a run of words may start with one


def mark_differences(reference: str, other: str, passages: Sequence[ComparedPassage] = ()) -> Markup:
    """Return `other` with differing runs of words marked; each tooltip shows the reference's words.

    passages  the sources of citations [n]
    """
    reference_words = _WORDS.findall(reference)
    other_words = _WORDS.findall(other)
    matcher = SequenceMatcher(
        None, [word.rstrip() for word in reference_words], [word.rstrip() for word in other_words], autojunk=False
    )
    parts: list[object] = []
    for kind, start, end, other_start, other_end in matcher.get_opcodes():
        old = "".join(reference_words[start:end]).strip()
        new = "".join(other_words[other_start:other_end])
        if kind == "equal":
            parts.append(_label_citations(new, passages))
        elif kind == "delete":
            parts.append(tag("mark", GAP, class_="kv-gap", title=f"Left out: {old}", aria_label="words left out"))
        else:
            text = new.rstrip()
            tooltip = f"Full prefill: {old}" if kind == "replace" else "Not in full prefill's answer"
            mark = tag("mark", _label_citations(text, passages), class_="kv-differs", title=tooltip)
            parts += [mark, new[len(text) :]]
    return join(*parts)


def has_same_words(reference: str, other: str) -> bool:
    """Return whether two answers are equal up to white space."""
    return reference.split() == other.split()


def _label_citations(text: str, passages: Sequence[ComparedPassage]) -> Markup:
    sources = {f"[{passage.rank}]": passage for passage in passages}
    parts: list[object] = []
    for part in _CITATION.split(text):
        if part in sources:
            page = "" if sources[part].page is None else f", page {sources[part].page}"
            name = f"{sources[part].document}{page}"
            parts.append(tag("span", part[1:-1], class_="kv-cite", title=name, aria_label=f"Source: {name}"))
        else:
            parts.append(part)
    return join(*parts)
