"""Which of several editions of a document a question means: 'policy_2023.docx' or 'policy_2025.docx'.

The names of editions differ only in their years and versions. The one that is meant has the question's year, or is the
newest, or an older one if the question asks for a former one.
"""

import re
from collections.abc import Sequence, Set
from dataclasses import dataclass

from engine.prompt.followups import YEAR
from engine.prompt.question_kind import QuestionKind, question_kind

CURRENT = re.compile(
    r"\b(?:current(?:ly)?|now(?:adays)?|today|at present|latest|newest|in force|aktuell\w*|derzeit\w*|jetzt|heute"
    r"|zurzeit|geltende\w*|neueste\w*)\b",
    re.I,
)
EDITION = (
    r"(?:versions?|editions?|polic(?:y|ies)|rules?|regulations?|by-?laws|statutes?|agreement|contract|terms|guidelines?"
    r"|handbook|Fassung|Regeln?|Richtlinie|Ordnung|Satzung|Vertrag)"
)
FORMER = re.compile(
    rf"\b(?:old(?:er)?|previous|former|earlier|alte[mnrs]?|vorige\w*|bisherige\w*) (?:[\w()]+ )?{EDITION}\b"
    rf"|\bold (?:vs\.?|versus|and|or) new\b|\bnew (?:vs\.?|versus|and|or) old\b"
    r"|\b(?:previously|formerly|back then|fr\u00fcher\w*|bisher)\b",
    re.I,
)
FORMER_HEADING = re.compile(
    r"\b(?:old|former|previous|outdated|superseded|alte[mnrs]?|bisherige[mnrs]?|ehemalige[mnrs]?)\b", re.I
)
PERIOD = re.compile(  # several years
    rf"\b(?:since|from|until|till|between|seit|ab|bis|zwischen)\b(?: \w+){{0,4}}? (?:{YEAR.pattern}|versions? \d|v\d)",
    re.I,
)
YEAR_IN_NAME = re.compile(r"(?<!\d)(?:19|20)\d\d(?!\d)")
VERSION_AT_END = re.compile(
    r"(?: (?:v ?\d{1,2}(?: \d+)*|(?:version|edition|rev(?:ision)?|stand|fassung)(?: ?\d+)*|final|signed))+$"
)
MAX_VERSION = 99
COPY = re.compile(r" ?\(\d+\)$")  # of a file that was saved again
VERSION_IN_NAME = re.compile(  # not 'Dyson V8', and no date after 'Stand'
    r"(?<![^\W_])(?:v|[Vv]ersion|[Ee]dition|[Rr]ev(?:ision)?|[Ff]assung)[ _]?(\d{1,2}(?:\.\d{1,2})*)(?![^\W_])"
)
VERSION_NUMBER = r"\d{1,2}(?:\.\d{1,2})*(?!\w)"
VERSION = re.compile(  # 'v2', 'versions 2.1 and 3.0', but not 'TLS version 1.2'
    rf"(?<![A-Z] )\b(?:v|(?i:versions?|editions?|rev(?:ision)?s?|fassung(?:en)?) )({VERSION_NUMBER})"
    rf"(?:(?: (?i:and|or|to|vs\.?|versus|und|oder|zu|auf|bis) |[-\u2013]| [-\u2013] )"
    rf"(?:v|(?i:version) )?({VERSION_NUMBER}))?"
    r"(?! (?:days?|weeks?|months?|years?|hours?|minutes?|Tage?n?|Wochen?|Monate?n?|Jahre?n?)\b)",
)

Edition = tuple[int, ...]  # a year, or the parts of a version's number


@dataclass(frozen=True, slots=True)
class OtherEditions:
    """Positions in a list of names: of editions that the question does not mean, and of those that are only older."""

    excluded: frozenset[int] = frozenset()
    older: frozenset[int] = frozenset()


def edition_of(name: str) -> tuple[str, Edition]:
    """Return what the names of all editions of a document share, and the year or else the version of this one, or ().

    'Travel policy 2023 v3.1.docx' and 'Travel_Policy_2025_FINAL.docx' are editions of the 'travel policy'. Years and
    versions are no editions of one document.
    """
    title = COPY.sub("", name.rpartition(".")[0] or name)
    shared = VERSION_AT_END.sub("", " ".join(re.findall(r"[^\W_]+", YEAR_IN_NAME.sub(" ", title).lower())))
    if years := YEAR_IN_NAME.findall(title):
        return shared, _edition(years[-1:])
    version = VERSION_IN_NAME.search(title)
    return (f"{shared} version", _edition(version[1].split("."))) if version else (shared, ())


def editions_in(question: str) -> set[Edition]:
    """Return the years and versions that a question names."""
    versions = {number for match in VERSION.finditer(question) for number in match.groups() if number}
    return {_edition([year]) for year in YEAR.findall(question)} | {_edition(each.split(".")) for each in versions}


def without_editions(question: str) -> str:
    """Return a question without the years and versions that it names."""
    return YEAR.sub("", VERSION.sub("", question))


def tells_edition(question: str) -> bool:
    """Return whether a question may say which edition it means; a period or a comparison means several."""
    if PERIOD.search(question) or question_kind(question) is QuestionKind.COMPARISON:
        return False
    return bool(editions_in(question)) or bool(CURRENT.search(question)) != bool(FORMER.search(question))


def is_former(heading: str, question: str) -> bool:
    """Return whether a heading says that something is no longer in force, and the question does not ask for that."""
    is_asked = FORMER_HEADING.search(question) or FORMER.search(question) or editions_in(question)
    is_comparison = question_kind(question) is QuestionKind.COMPARISON
    return bool(FORMER_HEADING.search(heading)) and not is_asked and not is_comparison


def other_editions(question: str, names: Sequence[str]) -> OtherEditions:
    """Return which of the documents with these names are other editions of one that the question means."""
    groups: dict[str, dict[Edition, set[int]]] = {}  # positions by edition, by what the names share
    for position, name in enumerate(names):
        shared, edition = edition_of(name)
        if edition:
            groups.setdefault(shared, {}).setdefault(edition, set()).add(position)
    known = {edition for editions in groups.values() for edition in editions}
    named = {each for each in editions_in(question) if _is_year(each) or each in known}
    is_told = tells_edition(question) and (bool(named) or not editions_in(question))
    excluded, older = set[int](), set[int]()
    for editions in groups.values():
        newest = {max(editions)}
        if named:
            meant = named & editions.keys()
        else:
            meant = editions.keys() - newest if is_told and FORMER.search(question) else newest
        others = {position for each in editions.keys() - meant for position in editions[each]} if meant else set()
        (excluded if is_told else older).update(others)
    return OtherEditions(frozenset(excluded), frozenset(older))


def newer_edition(question: str, names: Sequence[str], cited: Set[int]) -> str:
    """Return the name of the newest edition of the only document that an answer cites; '' if it is that, or is meant.

    names  of the documents of the passages
    cited  positions in them
    """
    older = other_editions(question, names).older
    if not cited or not cited <= older or len({names[position] for position in cited}) != 1:
        return ""
    shared, _ = edition_of(names[min(cited)])
    return max((name for name in names if edition_of(name)[0] == shared), key=lambda name: edition_of(name)[1])


def _is_year(edition: Edition) -> bool:
    return edition > (MAX_VERSION,)


def _edition(numbers: Sequence[str]) -> Edition:
    """Return an edition by its numbers; '3.0' is '3'."""
    parts = list(map(int, numbers))
    while len(parts) > 1 and parts[-1] == 0:
        parts.pop()
    return tuple(parts)
