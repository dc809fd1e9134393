"""How far two columns of a row are apart: 'How many more machines did we sell in 2024 than in 2020?'."""

import re

from engine.prompt.followups import YEAR
from engine.prompt.overlap import content_stems, content_words
from engine.prompt.tables.amounts import are_comparable, cell_number
from engine.prompt.tables.columns import Cells
from engine.prompt.tables.totals import format_number
from engine.prompt.tables.wording import has_words
from engine.text import split_words

ASKS_HOW_MUCH = re.compile(
    r"\b(?:how (?:much|many)|(?:um )?wie ?viel\w*)\b|\b(?:what|was) (?:is|was|were|ist|war) (?:the|der|die) "
    r"(?:difference|increase|decrease|growth|rise|fall|drop|change|unterschied|differenz|anstieg|r\u00fcckgang)\b",
    re.I,
)
DIFFERENCE = re.compile(
    r"\b(?:more|less|fewer|(?:high|low|larg|small|bigg|heavi|light|long|short|cheap)er|difference|increase[ds]?"
    r"|rises?|rose|risen|grow[ns]?|growth|grew|f[ae]ll(?:en|s)?|drop(?:ped|s)?|decrease[ds]?|declined?|changed?"
    r"|went (?:up|down)|mehr|weniger|h\u00f6her|niedriger|unterschied|differenz|anstieg|r\u00fcckgang|gestiegen"
    r"|gesunken|gewachsen|stieg|sank)\b",
    re.I,
)
ROWS_APART = re.compile(  # how much, in the unit of the column
    r"\bhow (?:much|many)(?: (?!times|per)\w+)? (?:more|less|fewer|\w{2,}er)\b"
    r"(?!.*\b(?:per ?cent|times|for|each)\b|.*%).*\bthan\b"
    r"|\bwie ?viel (?:mehr|weniger|\w{2,}er)\b.*\bals\b",
    re.I,
)
OTHER = re.compile(  # shares, factors, changes a year, reasons
    r"%|\b(?:per ?cent\w*|prozent\w*|rate|factor|faktor|(?:two|three|four|five|ten|many)[- ]?fold"
    r"|(?:zwei|drei|vier|f\u00fcnf|zehn)fach\w*|ratio|times|multiple|annual\w*|average|each|every|per|(?-i:pro)|why|who|which|warum"
    r"|wer|welche\w*)\b",
    re.I,
)


def difference_of_rows(question: str, one: Cells, other: Cells) -> str:
    """Return how far two rows are apart in the column that a question names; '' if that is unclear or not asked."""
    if not ROWS_APART.search(question):
        return ""
    values, words = dict(other), content_stems(question)
    shared = [(header, value, values[header]) for header, value in one[1:] if header in values]
    columns = [each for each in shared if has_words(question, each[0])]
    columns = columns or [each for each in shared if content_stems(each[0]) & words]
    if len(columns) != 1 or not are_comparable(columns[0][1:]):
        return ""
    header, *texts = columns[0]
    first, last = map(cell_number, texts)
    is_per_other = "per" in split_words(question) and "per" not in split_words(header)
    if first is None or last is None or is_per_other:
        return ""
    names = f"{one[0][1]}: {texts[0]}, {other[0][1]}: {texts[1]}"
    return f"{header}: {format_number(abs(last - first), [one, other], header)} ({names})"


def difference(question: str, row: Cells) -> str:
    """Return the two columns of a row that a question compares, with their difference; '' if that is unclear.

    They are those of two years, of the same unit, or have the question's words as headers; it names the row, too.
    """
    is_asked = ASKS_HOW_MUCH.search(question) and DIFFERENCE.search(question) and not OTHER.search(question)
    if not is_asked or not content_stems(row[0][1]) & content_stems(question):
        return ""
    years, words = set(YEAR.findall(question)), content_words(question)
    named = [
        (header, value)
        for header, value in row[1:]
        if (years & set(YEAR.findall(header)) if years else header and content_words(header) <= words)
    ]
    units = {YEAR.sub("", header).strip() if years else "" for header, _ in named}
    if len({header for header, _ in named}) != 2 or len(units) > 1 or not are_comparable(value for _, value in named):
        return ""
    (before, old), (after, new) = sorted(named, key=lambda each: YEAR.findall(each[0])) if years else named
    first, last = cell_number(old), cell_number(new)
    if first is None or last is None:
        return ""
    amounts = (format_number(abs(last - first), [row], header) for header in (before, after))
    amount = max(amounts, key=len)  # with the decimals of either
    sign = "\u2212" if last < first else "+" if last > first else ""
    return f"{before}: {old} \u2192 {after}: {new} ({sign}{amount})"
