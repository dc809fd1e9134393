"""The rows of a table that are assigned to a person: 'What does Ann have to do?' of the action items of a meeting."""

import re
from collections.abc import Sequence

from engine.prompt.tables.columns import Cells, data_rows
from engine.prompt.tables.wording import has_words

NAME = r"(?P<{}>[\w-]+(?: [\w-]+)??)"
TASKS = r"(?:actions?(?: items?)?|tasks?|to-?dos?|jobs?|aufgaben?)"
ASKS_FOR_TASKS = re.compile(
    rf"\bwhat (?:does|must|should|has|is) {NAME.format('name1')}"
    r"(?: still)? (?:(?:have|need|got|supposed|going) to|do\b|responsible for|in charge of|working on)"
    rf"|\b{TASKS} (?:of|for|assigned to|von|f\u00fcr) {NAME.format('name2')}"
    rf"|\b(?P<name3>[\w-]+)['\u2019]s? {TASKS}\b"
    rf"|\bwas (?:muss|soll) {NAME.format('name4')}(?: noch)? (?:alles )?(?:tun|machen|erledigen)\b",
    re.I,
)
ASSIGNED = re.compile(
    r"owners?|who|(?:person )?responsible|responsibility|assigned(?: to)?|assignee|lead|by whom|verantwortlich\w*"
    r"|zust\u00e4ndig\w*|wer",
    re.I,
)
STILL = re.compile(r"\b(?:still|open|noch|offen\w*)\b", re.I)
HOW_MANY = re.compile(r"^(?:how many|wie viele)\b", re.I)
DONE = re.compile(r"done|closed|completed?|finished|resolved|erledigt|abgeschlossen|fertig", re.I)
CHECKED = re.compile(r"yes|ja|x|\u2713", re.I)  # below a header such as 'Done'


def assigned_rows(question: str, rows: Sequence[Cells]) -> list[int]:
    """Return the rows that are assigned to the person whose tasks a question asks for; often none.

    Those that are done are left out if it asks what there still is to do.
    """
    match = None if HOW_MANY.match(question) else ASKS_FOR_TASKS.search(question)
    name = match[match.lastgroup or 0] if match else ""
    return [
        index
        for index, row in (data_rows(rows) if name else ())
        if any(ASSIGNED.fullmatch(header) and has_words(value, name) for header, value in row)
        and not (STILL.search(question) and _is_done(row))
    ]


def _is_done(row: Cells) -> bool:
    """Return whether a cell of a task says that it is done."""
    return any(
        DONE.fullmatch(value.strip()) or (DONE.fullmatch(header) and CHECKED.fullmatch(value.strip()))
        for header, value in row
    )
