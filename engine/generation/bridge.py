"""Find passages that only another passage connects with the question: two hops.

"When was the mother of Ida Wren born?": one passage names Ida Wren and her mother, and another one is about the mother.
The span scorer reads each passage on its own, so it knows nothing of the second; the main model reads both.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.prompt.units import Unit

NAME = re.compile(r"[^\W\d_a-z][\w'\u2019.&-]*(?: (?:(?:of|the|de|der|von|van|in|and) )?[^\W\d_a-z][\w'\u2019.&-]*)*")
MAX_TITLE_CHARS = 80
MIN_NAME_CHARS = 4


@dataclass(frozen=True)
class Bridge:
    """Passages, counted from 0: `first` names what the question names, and `name`, which `second` is about."""

    first: int
    second: int
    name: str


def find_bridges(question: str, passages: Sequence[str]) -> list[Bridge]:
    """Return the connections from passages that have a name of the question to passages that have none."""
    names = _names(question)
    folded = [passage.casefold() for passage in passages]
    has_name = [any(name in text for name in names) for text in folded]
    found = []
    for second, passage in enumerate(passages):
        name = _subject(passage)
        if has_name[second] or len(name) < MIN_NAME_CHARS or name.casefold() in question.casefold():
            continue
        mention = _mention(name)
        found += [
            Bridge(first, second, name)
            for first, text in enumerate(passages)
            if has_name[first] and mention.search(text)
        ]
    return found


def connecting_units(
    question: str, bridges: Sequence[Bridge], units: Sequence[Unit], text: Callable[[Unit], str], answer: str
) -> list[Unit]:
    """Return what states an answer and what names its subject, of two passages; empty if a single one has both.

    Where some subjects are named together with a name of the question, the others do not count.
    """

    def first_with(pattern: re.Pattern[str], passage: int) -> Unit | None:
        prose = (unit for unit in units if unit.passage == passage and unit.block.kind != "table")
        return next((unit for unit in prose if pattern.search(text(unit))), None)

    named = {bridge: unit for bridge in bridges if (unit := first_with(_mention(bridge.name), bridge.first))}
    names = _names(question)
    direct = {bridge: unit for bridge, unit in named.items() if any(name in text(unit).casefold() for name in names)}
    stated_as = re.compile(rf"(?<!\w){re.escape(answer)}(?!\w)", re.I)
    for bridge, unit in (direct or named).items():
        stated = first_with(stated_as, bridge.second)
        if stated and first_with(stated_as, bridge.first) is None:
            return [stated, unit]
    return []


def _names(question: str) -> list[str]:
    """Return the names in a question, in lower case; its first word is none."""
    _, _, after_question_word = question.partition(" ")
    return [name.casefold() for name in NAME.findall(after_question_word) if len(name) >= MIN_NAME_CHARS]


def _mention(name: str) -> re.Pattern[str]:
    """Return a pattern for a name in a text; a single word at the start of a sentence may be no name."""
    start = r"(?<!\w)" if " " in name else r"(?<=[\w,(\u201c\"'] )"
    return re.compile(rf"{start}{re.escape(name)}(?!\w)")


def _subject(passage: str) -> str:
    """Return what a passage is about: its title, or the name that it begins with."""
    line = passage.strip().partition("\n")[0].lstrip("# ")
    title = re.sub(r"\s*\([^)]*\)$", "", line).strip()
    if len(line) <= MAX_TITLE_CHARS and not line.endswith((".", ":")):
        return title
    name = NAME.match(line)
    return name[0] if name else ""
