"""How far two columns of a row are apart: 'How many more machines did we sell in 2024 than in 2020?'."""

import re

from engine.prompt.followups import YEAR
from engine.prompt.overlap import content_words
from engine.prompt.tables.amounts import are_comparable, cell_number
from engine.prompt.tables.columns import Cells
from engine.prompt.tables.totals import format_number
from store.german import is_german

DIFFERENCE = re.compile(
    r"\bhow (?:much|many) (?:more|less|fewer|\w{3,}er)\b|\b(?:by how much|difference|increase[ds]?|rises?|rose|risen"
    r"|grow[ns]?|growth|grew|f[ae]ll(?:en|s)?|drop(?:ped|s)?|decrease[ds]?|declined?|declines|went (?:up|down)"
    r"|unterschied|differenz|gestiegen|gesunken|gewachsen|stieg|sank)\b"
    r"|\bwie ?viel\w* (?:mehr|weniger|\w{3,}er)\b",
    re.I,
)
SHARE = re.compile(r"%|\bper ?cent|\bprozent", re.I)  # of change, which is not the difference


def difference(question: str, row: Cells) -> str:
    """Return the difference of the two columns of a row that a question names, and both; '' if that is unclear."""
    if not DIFFERENCE.search(question) or SHARE.search(question):
        return ""
    years, words = set(YEAR.findall(question)), content_words(question)
    named = [
        (header, value)
        for header, value in row[1:]
        if (years & set(YEAR.findall(header)) if years else header and content_words(header) <= words)
    ]
    numbers = [cell_number(value) for _, value in named]
    if len(named) != 2 or len({header for header, _ in named}) != 2 or not are_comparable(value for _, value in named):
        return ""
    one, other = numbers
    if one is None or other is None:
        return ""
    amount = format_number(abs(one - other), [row], named[0][0])
    name = "Unterschied" if is_german(question) else "difference"
    return f"{amount} ({name}; {'; '.join(f'{header}: {value}' for header, value in named)})"
