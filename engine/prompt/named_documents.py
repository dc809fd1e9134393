"""Find the documents that a question names, and what it asks of them: 'What does the lease say about termination?'."""

import re
from collections import Counter
from collections.abc import Mapping

from engine.prompt.overlap import content_stems
from engine.prompt.titles import topic_words
from engine.text import WORD, split_words
from store.names import MAX_LENGTH, split_suffix

TOPIC = re.compile(
    r"(?P<english>.*?)\bsays? about (?P<topic>.+)"
    r"|(?P<german>.*?\bsteht (?:im|in) .{1,200}?) (?:\u00fcber|zu[mr]?) (?P<thema>.+)",
    re.I | re.S,
)
SEVERAL = re.compile(r"\b(?:and|or|both|each|all|every|versus|und|oder|sowie|beiden?|alle[mnrs]?)\b|[,;&/]", re.I)
FILE = re.compile(r"\w\.[a-z]\w{1,4}\b|\u2026", re.I)  # of a file's name
MARKS = ",;&/"  # that also separate names
MIN_CUT_CHARS = 8  # of a name's start before '\u2026'
GENERIC = re.compile(  # words that name no document, though a file may be called so
    r"an?|and|the|our|my|this|that|these|those|it|they|what|which|who|how|do|does|did|say|in|documents?|files?|texts?"
    r"|im|der|die|das|den|dem|und|was|steht|dokumente?|datei|dateien"
)
ALL_DOCUMENTS = re.compile(
    r"\b(?:(?:all|these|those|the|my|our|(?:alle|diese|meine|unsere)[nr]?|die|den)"
    r"(?: (?:of|these|the|my|our|uploaded|(?:diese|meine|unsere)[nr]?)){0,2}"
    r" (?:documents|files|dokumenten?|dateien|unterlagen)|(?:each|every) (?:document|file)|jedes dokument|jede datei)\b"
    r"(?! (?:about|on|that|which|\u00fcber|zu|die) \w)",
    re.I,
)
JOINING = re.compile(rf"{GENERIC.pattern}|_+|or|both|oder|sowie|beiden?")


def split_topic(question: str) -> tuple[str, list[str]]:
    """Return whom a question asks, and the words of what it asks about; no words if it asks otherwise."""
    match = TOPIC.match(question)
    if not match:
        return "", []
    return match["english"] or match["german"] or "", topic_words(match["topic"] or match["thema"])


def several_documents(question: str, names: Mapping[str, str]) -> frozenset[str]:
    """Return the ids of the documents that a question asks about one topic, if it names two or more and no other."""
    subject, topic = split_topic(question)
    named, others = named_documents(subject, names) if topic else (set[str](), "")
    is_clear = SEVERAL.search(others) and not FILE.search(others)
    is_complete = all(map(JOINING.fullmatch, split_words(others)))
    return frozenset(named) if len(named) > 1 and is_clear and is_complete else frozenset()


def named_documents(subject: str, names: Mapping[str, str]) -> tuple[set[str], str]:
    """Return the ids of the documents that a text names, and the text with '_' for the words of these names.

    A name has all its words in the text, with or without its suffix, or it is cut: 'A very long na\u2026'.
    """
    words = set(split_words(subject))
    before = subject.casefold().rpartition("\u2026")[0][-MAX_LENGTH:]
    starts = [before[word.start() :] for word in re.finditer(r"\b\w", before[: 1 - MIN_CUT_CHARS])]
    named: dict[str, set[str]] = {}
    for document, name in names.items():
        full, stem = set(split_words(name)), set(split_words(split_suffix(name)[0]))
        if cut := next(filter(name.casefold().startswith, starts), ""):
            named[document] = set(split_words(cut))
        elif full <= words and "." in name:
            named[document] = full
        elif stem <= words and not all(map(GENERIC.fullmatch, stem)):
            named[document] = stem
    named = {key: each for key, each in named.items() if not any(each < other for other in named.values())}
    known = Counter[str]()
    for document in named:
        known += Counter(split_words(names[document])) | Counter(named[document])  # a cut name ends within a word
    marks = {mark for document in named for mark in names[document] if mark in MARKS} | ({"\u2026"} if named else set())
    others = "".join(letter for letter in subject if letter not in marks)
    return set(named), WORD.sub(lambda word: _hide(word[0], known), others)


def most_named(question: str, names: Mapping[str, str]) -> list[str]:
    """Return the ids of the documents whose names have most of a question's words; none if no name has any.

    Numbers count less than words: a year in a name is often also the question's.
    """
    asked = content_stems(question)

    def shared(name: str) -> tuple[int, int]:
        found = asked & content_stems(" ".join(split_words(split_suffix(name)[0])))
        num_numbers = sum(map(str.isdecimal, found))
        return len(found) - num_numbers, num_numbers

    counts = {document: shared(name) for document, name in names.items()}
    most = max(counts.values(), default=(0, 0))
    return [document for document, count in counts.items() if count == most] if most[0] else []


def _hide(word: str, known: Counter[str]) -> str:
    """Return '_' for a word as often as it is known."""
    known[word.lower()] -= 1
    return "_" if known[word.lower()] >= 0 else word
