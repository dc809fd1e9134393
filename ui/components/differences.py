"""Differences between two texts, word by word."""

import re
from collections.abc import Callable
from difflib import SequenceMatcher

from ui.html import Markup, join, tag

GAP = "\u22ef"  # shown in place of missing words
_WORDS = re.compile(r"\S+\s*")


def has_same_words(first: str, second: str) -> bool:
    """Return whether two texts have the same words, whatever the space between them."""
    return first.split() == second.split()


def mark_differences(
    reference: str, other: str, reference_name: str, render: Callable[[str], Markup | str] = str
) -> Markup:
    """Return `other` with the runs of words that differ marked; tooltips show the reference's words.

    `render` turns a part of the text into markup.
    """
    reference_words = _WORDS.findall(reference)
    other_words = _WORDS.findall(other)
    matcher = SequenceMatcher(None, reference.split(), other.split(), autojunk=False)
    parts: list[object] = []
    for kind, start, end, other_start, other_end in matcher.get_opcodes():
        old = "".join(reference_words[start:end]).strip()
        new = "".join(other_words[other_start:other_end])
        if kind == "equal":
            parts.append(render(new))
        elif kind == "delete":
            parts.append(tag("mark", GAP, class_="kv-gap", title=f"Left out: {old}", aria_label="words left out"))
        else:
            text = new.rstrip()
            tooltip = f"{reference_name}: {old or 'nothing'}"
            parts += [tag("mark", render(text), class_="kv-differs", title=tooltip), new[len(text) :]]
    return join(*parts)
