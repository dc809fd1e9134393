"""Two documents compared as a whole: the sentences, list items and table rows in which they differ.

"What changed from 2024 to 2025?" has no words that a search could find. If a question asks for nothing more specific,
and two documents are named in it or chosen, its passages are those in which the documents differ.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from operator import attrgetter

from engine.prompt.followups import STOP_WORD, YEAR
from engine.prompt.pack import PreparedPrompt
from engine.prompt.question_kind import QuestionKind, question_kind
from engine.prompt.units import split_units
from engine.request import Quote, Request
from engine.text import split_words
from store.names import split_suffix
from store.types import Chunk, Document, Finder, Hit

MAX_UNITS = 5000  # of a document: aligning takes quadratic time at worst
MIN_SHARED = 0.3  # of the shorter document's units; with fewer, the documents are not versions of one text
MIN_SIMILAR = 0.5  # of the words of two units; with fewer, they are not versions of each other
MAX_PAIRS = 100_000  # of units between two common ones; if there are more, they are not paired
MAX_PASSAGES = 32
PREFIX = 5  # letters by which a question's word is recognized in a name, also in the plural
GENERAL = re.compile(
    r"compar\w*|differ\w*|chang\w*|versions?|documents?|files?|texts?|contents?|new\w*|old\w*|between|other|each|two|both"
    r"|these|them|vs|versus|list|show|all|every\w*|s"
    r"|vergl\w*|unterschie\w*|unterscheid\w*|ge\u00e4ndert|\u00e4nder\w*|fassung\w*|dokument\w*|datei\w*|neue?\w*|alte?\w*"
    r"|hat|zwischen|gegen\u00fcber|beiden?|zwei|alles?"
)


@dataclass(frozen=True, slots=True)
class Passage:
    """A unit of a document and the chunk that contains it."""

    text: str
    chunk: Chunk


@dataclass(frozen=True, slots=True)
class DocumentChanges:
    """Units that differ, in the order of the documents: of both, or of one that alone has it. None: not versions."""

    old: Document
    new: Document
    changes: Sequence[tuple[Passage, ...]] | None

    def hits(self) -> list[Hit]:
        """Return the chunks that differ, those of the first changes first."""
        chunks = {unit.chunk.id: unit.chunk for change in self.changes or () for unit in change}
        return [Hit(chunk, 0.0, similarity=None, matched_words=False) for chunk in list(chunks.values())[:MAX_PASSAGES]]

    def add_to(self, prepared: PreparedPrompt) -> PreparedPrompt:
        """Return a prompt of these hits with the changes as quotes, and a note about those that did not fit."""
        ranks = {hit.chunk.id: rank for rank, hit in enumerate(prepared.hits, start=1)}
        located = []
        for change in self.changes or ():
            quotes = [_quote(prepared, ranks.get(unit.chunk.id), unit) for unit in change]
            if all(quotes):
                located.append(tuple(quote for quote in quotes if quote))
        return replace(prepared, changes=tuple(located), notes=prepared.notes + self._notes(len(located)))

    def _notes(self, num_located: int) -> tuple[str, ...]:
        names = f"{self.old.name} and {self.new.name}"
        if self.changes is None:
            return (f"{names} have too little text in common to list their differences.",)
        if not self.changes:
            return (f"The texts of {names} do not differ.",)
        total = len(self.changes)
        note = f"{total - num_located} of {total} differences are not shown: their passages did not fit."
        return (note,) if num_located < total else ()


def compare_documents(finder: Finder, request: Request) -> DocumentChanges | None:
    """Return how the two documents of a general comparison differ; None for other questions."""
    if request.whole_document or question_kind(request.question) is not QuestionKind.COMPARISON:
        return None
    pair = _compared(finder.documents(), request)
    if pair is None:
        return None
    old, new = pair
    old_units, new_units = (_units(finder.chunks(document.id)) for document in pair)
    if not old_units or not new_units or max(len(old_units), len(new_units)) > MAX_UNITS:
        return None
    changes = changes_between(old_units, new_units)
    if changes is None and not request.documents and not all(each.name in request.question for each in pair):
        return None  # the question need not be about these two
    return DocumentChanges(old, new, changes)


def changes_between(old: Sequence[Passage], new: Sequence[Passage]) -> list[tuple[Passage, ...]] | None:
    """Return the units that differ, paired where they are versions of each other; None if too few are shared.

    A unit that has only moved is no change.
    """
    before, after = ([_normalize(unit.text) for unit in units] for units in (old, new))
    all_before, all_after = set(before), set(after)
    changes: list[tuple[Passage, ...]] = []
    num_shared = 0
    for tag, i, i_end, j, j_end in SequenceMatcher(None, before, after).get_opcodes():  # frequent units: no anchors
        if tag == "equal":
            num_shared += i_end - i
            continue
        for one, other in _pair(before[i:i_end], after[j:j_end]):
            if one is not None and other is not None:
                num_shared += 1
                if before[i + one] != after[j + other]:
                    changes.append((old[i + one], new[j + other]))
            elif one is not None and before[i + one] not in all_after:
                changes.append((old[i + one],))
            elif other is not None and after[j + other] not in all_before:
                changes.append((new[j + other],))
    return changes if num_shared >= MIN_SHARED * min(len(old), len(new)) else None


def _pair(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[int | None, int | None]]:
    """Yield the places of units that are versions of each other, and of those without a counterpart, in order."""
    first = 0  # in `new`, not yielded yet
    words = [Counter(split_words(text)) for text in new]
    for i, text in enumerate(old):
        mine = Counter(split_words(text))
        candidates = range(first, len(new)) if len(old) * len(new) <= MAX_PAIRS else ()
        scores = {j: 2 * (mine & words[j]).total() / max(1, mine.total() + words[j].total()) for j in candidates}
        best = max(scores, key=scores.__getitem__, default=None)
        if best is None or scores[best] < MIN_SIMILAR:
            yield i, None
            continue
        yield from ((None, j) for j in range(first, best))
        yield i, best
        first = best + 1
    yield from ((None, j) for j in range(first, len(new)))


def _compared(documents: Sequence[Document], request: Request) -> tuple[Document, Document] | None:
    """Return the earlier and the later document if the question compares all of two; None otherwise."""
    asked = {word[:PREFIX] for word in split_words(request.question)}
    named = [each for each in documents if (words := _name_words(each)) and words <= asked]
    scope = [each for each in documents if each.is_in(request.documents)]
    pair = next((each for each in (named, scope) if len(each) == 2), None)
    if pair is None:
        return None
    about = set().union(*map(_name_words, pair), *(split_words(each.name) for each in pair))
    for word in split_words(YEAR.sub("", request.question)):
        if not (STOP_WORD.fullmatch(word) or GENERAL.fullmatch(word) or word[:PREFIX] in about or word in about):
            return None
    years = [YEAR.findall(each.name) for each in pair]
    by_year = years[0] != years[1] and all(years)
    one, other = (
        sorted(pair, key=lambda each: YEAR.findall(each.name)) if by_year else sorted(pair, key=attrgetter("added_at"))
    )
    return one, other


def _name_words(document: Document) -> set[str]:
    return {word[:PREFIX] for word in split_words(split_suffix(document.name)[0].replace("_", " "))}


def _units(chunks: Sequence[Chunk]) -> list[Passage]:
    """Return the units of a document, but for its headings, each with a chunk that contains it."""
    parts, length = list[str](), 0
    for chunk in chunks:  # they overlap; between them may be blank space
        part = "\n" * max(0, chunk.start - length) + chunk.text[max(0, length - chunk.start) :]
        parts.append(part)
        length += len(part)
    text = "".join(parts)
    units, index = list[Passage](), 0
    for unit in split_units(0, text):
        while index + 1 < len(chunks) and chunks[index].end < unit.end:
            index += 1
        if unit.block.kind != "heading":
            units.append(Passage(text[unit.start : unit.end], chunks[index]))
    return units


def _normalize(text: str) -> str:
    return " ".join(text.casefold().split())


def _quote(prepared: PreparedPrompt, rank: int | None, unit: Passage) -> Quote | None:
    """Return a unit as a quote of the passage with this rank; None if the prompt does not have it."""
    start = prepared.texts[rank - 1].find(unit.text) if rank else -1
    if rank is None or start < 0:
        return None
    return Quote(rank, start, start + len(unit.text), unit.text, unit.chunk.document_name)
