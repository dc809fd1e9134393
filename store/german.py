"""Recognize German questions: search and rules treat their words differently."""

import re

FUNCTION_WORD = re.compile(
    r"\b(?:der|das|den|dem|ist|sind|wird|werden|wie|wer|wann|wo|und|eine?|beim|zum|kann|darf|muss|ich|wir|nicht"
    r"|kostet|welche[mnrs]?|vom|f\u00fcr)\b",
    re.I,
)


def is_german(question: str) -> bool:
    """Return whether a question has a frequent German word that is no English one."""
    return bool(FUNCTION_WORD.search(question))
