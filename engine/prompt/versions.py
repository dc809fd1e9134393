"""Two documents compared as a whole: the sentences, list items and table rows in which they differ.

"What changed from 2024 to 2025?" has no words that a search could find. If a question asks for nothing more specific,
and two documents are named in it or chosen, its passages are those in which the documents differ.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import islice

from engine.prompt.editions import edition_of, without_editions
from engine.prompt.followups import YEAR, relevant_turns
from engine.prompt.pack import PreparedPrompt
from engine.prompt.units import split_units
from engine.request import Quote, Request
from engine.text import split_words
from store.markdown import parse_row
from store.names import split_suffix
from store.types import Chunk, Document, Finder, Hit

MAX_UNITS = 5000  # of a document: aligning takes quadratic time at worst
MIN_SHARED = 0.3  # of the shorter document's units; with fewer, the documents are not versions of one text
MIN_SIMILAR = 0.5  # of the words of two units; with fewer, they are not versions of each other
MAX_PAIRS = 100_000  # of units between two common ones; if there are more, they are not paired
MAX_PASSAGES = 32
GENERAL = re.compile(  # words of a comparison that do not say of what
    r"compare[sd]?|comparison|differ(?:s|ent|ence|ences)?|change[sd]?|versions?|documents?|files?|texts?|contents?"
    r"|new(?:er|est)?|old(?:er|est)?|between|other|each|two|both|these|them|they|it|its|vs|versus|list|show|give|tell|me"
    r"|a|an|the|all|any|every|everything|of|in|on|to|from|with|and|or|as|is|are|was|were|be|been|do|does|did|has|have|had"
    r"|what|which|how|there|that|please|can|could|you|s"
    r"|vergleich\w{0,2}|vergleiche\w{0,2}|unterschied\w{0,2}|unterscheide\w{0,2}|ge\u00e4ndert|\u00e4nderung(?:en)?|\u00e4ndert"
    r"|fassung(?:en)?|dokumente?n?|dateie?n?|datei|neu|neue[mnrs]?|alt|alte[mnrs]?|zwischen|gegen\u00fcber|beiden?|zwei|alle[mnrs]?"
    r"|der|die|das|dem|den|des|ein|eine[mnrs]?|im|von|vom|zu|zum|zur|auf|mit|und|oder|hat|haben|sich|ist|sind|es|gibt"
    r"|welche[mnrs]?|wie|mir|bitte"
)
GENERAL_HINT = re.compile(  # of which a comparison has one at least
    r"compare[sd]?|comparison|differ(?:s|ent|ence|ences)?|change[sd]?|vs|versus|new"
    r"|vergleich\w{0,2}|vergleiche\w{0,2}|unterschied\w{0,2}|unterscheide\w{0,2}|ge\u00e4ndert|\u00e4nderung(?:en)?|\u00e4ndert|neu"
)
PLURALS = ("s", "es", "n", "en", "e")


@dataclass(frozen=True, slots=True)
class LocatedUnit:
    """A unit of a document, the chunk that contains it, and its start in the chunk's text."""

    text: str
    chunk: Chunk
    start: int = 0
    is_heading: bool = False


@dataclass(frozen=True, slots=True)
class DocumentChanges:
    """Units that differ, in the order of the documents: of both, or of one that alone has it. None: not versions."""

    old: Document
    new: Document
    changes: Sequence[tuple[LocatedUnit, ...]] | None

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
            compared = "headings, order and capitals were not compared"
            return (f"No sentence, list item or table row is in only one of {names}; {compared}.",)
        total = len(self.changes)
        note = f"{total - num_located} of {total} differences are not shown: their passages are not in the prompt."
        return (note,) if num_located < total else ()


def compare_documents(finder: Finder, request: Request) -> DocumentChanges | None:
    """Return how the two documents of a general comparison differ; None for other questions."""
    if request.whole_document or not may_compare(request.question):
        return None
    scope = [document for document in finder.documents() if document.is_in(request.documents)]
    named = named_in(request.question, scope)
    pair = next((each for each in (named, scope) if len(each) == 2), None)
    if pair is None or not _is_general(request.question, pair):
        return None
    if pair is not named and relevant_turns(request.question, request.history):
        return None  # a follow-up is about the subject of an earlier question
    old, new = in_order(pair)
    if max(old.num_chunks, new.num_chunks) > MAX_UNITS:
        return None
    old_units, new_units = (
        [unit for unit in located_units(finder.chunks(document.id)) if not unit.is_heading] for document in (old, new)
    )
    if not old_units or not new_units or max(len(old_units), len(new_units)) > MAX_UNITS:
        return None
    changes = changes_between(old_units, new_units)
    if changes is None and not request.documents and pair is not named:
        return None  # the question need not be about these two
    return DocumentChanges(old, new, changes)


def changes_between(
    old: Sequence[LocatedUnit], new: Sequence[LocatedUnit], min_shared: float = MIN_SHARED
) -> list[tuple[LocatedUnit, ...]] | None:
    """Return the units that differ, paired where they are versions of each other; None if too few are shared.

    A unit that has only moved is no change.
    """
    before, after = ([_normalize(unit.text) for unit in units] for units in (old, new))
    all_before, all_after = set(before), set(after)
    changes: list[tuple[LocatedUnit, ...]] = []
    num_shared, max_pairs = 0, MAX_PAIRS
    for tag, i, i_end, j, j_end in SequenceMatcher(None, before, after).get_opcodes():  # frequent units: no anchors
        if tag == "equal":
            num_shared += i_end - i
            continue
        num_pairs = (i_end - i) * (j_end - j)
        for one, other in _pair(before[i:i_end], after[j:j_end], is_paired=num_pairs <= max_pairs):
            if one is not None and other is not None:
                num_shared += 1
                has_moved = before[i + one] in all_after and after[j + other] in all_before
                if not has_moved:
                    changes.append((old[i + one], new[j + other]))
            elif one is not None and before[i + one] not in all_after:
                changes.append((old[i + one],))
            elif other is not None and after[j + other] not in all_before:
                changes.append((new[j + other],))
        max_pairs -= min(num_pairs, max_pairs)
    return changes if num_shared >= min_shared * min(len(old), len(new)) else None


def _pair(old: Sequence[str], new: Sequence[str], is_paired: bool) -> Iterator[tuple[int | None, int | None]]:
    """Yield the places of units that are versions of each other, and of those without a counterpart, in order."""
    first = 0  # in `new`, not yielded yet
    words = [Counter(split_words(text)) for text in new]
    names = [_row_name(text) for text in new]
    for i, text in enumerate(old):
        mine, name = Counter(split_words(text)), _row_name(text)
        candidates = [j for j in range(first, len(new)) if names[j] == name] if is_paired else []
        scores = {j: 2 * (mine & words[j]).total() / max(1, mine.total() + words[j].total()) for j in candidates}
        best = max(scores, key=scores.__getitem__, default=None)
        if best is None or scores[best] < MIN_SIMILAR:
            yield i, None
            continue
        yield from ((None, j) for j in range(first, best))
        yield i, best
        first = best + 1
    yield from ((None, j) for j in range(first, len(new)))


def _row_name(text: str) -> tuple[str, str] | None:
    """Return the first cell of a table row, which names it; None for other units."""
    row = parse_row(text)
    return row[0] if row else None


def named_in(question: str, documents: Sequence[Document]) -> list[Document]:
    """Return the documents whose names are in a question with all their words, but not 'rules' beside 'pool rules'."""
    words = set(_words(question))
    named = [document for document in documents if (name := name_words(document)) and name <= words]
    return [each for each in named if not any(name_words(each) < name_words(other) for other in named)]


def may_compare(question: str) -> bool:
    """Return whether a question has a word of comparing."""
    return any(GENERAL_HINT.fullmatch(word) for word in _words(question))


def _is_general(question: str, documents: Sequence[Document]) -> bool:
    """Return whether a question says nothing but which documents to compare."""
    about = set().union(*map(name_words, documents), *(_words(document.name) for document in documents))
    words = _words(without_editions(question.replace("_", " ")))
    return all(GENERAL.fullmatch(word) or singulars(word) & about for word in words)


def singulars(word: str) -> set[str]:
    """Return what a word may be the plural of, and the word itself."""
    stems = {word.removesuffix(ending) for ending in PLURALS}
    return stems | {word} | ({f"{word[:-3]}y"} if word.endswith("ies") else set())


def in_order(pair: Sequence[Document]) -> tuple[Document, Document]:
    """Return the earlier and the later document: by the editions in their names, else by when they were added."""
    years = [tuple(YEAR.findall(document.name.replace("_", " "))) for document in pair]
    shared, versions = zip(*(edition_of(document.name) for document in pair), strict=True)
    names: Sequence[Sequence[object]] = years if all(years) else versions if len(set(shared)) == 1 else ((), ())
    are_named = all(names) and len(set(names)) == 2
    ordered = dict(zip((document.id for document in pair), names, strict=True)) if are_named else {}
    one, other = sorted(pair, key=lambda each: (ordered.get(each.id, ()), each.added_at))
    return one, other


def _words(text: str) -> list[str]:
    return split_words(text.replace("_", " "))


def name_words(document: Document) -> set[str]:
    """Return the words of a document's name, without its suffix."""
    return set(_words(split_suffix(document.name)[0]))


def located_units(chunks: Sequence[Chunk]) -> list[LocatedUnit]:
    """Return the units of a document, each with a chunk that contains it."""
    parts, length = list[str](), 0
    for chunk in chunks:  # they overlap; between them may be blank space
        part = "\n" * max(0, chunk.start - length) + chunk.text[max(0, length - chunk.start) :]
        parts.append(part)
        length += len(part)
    text = "".join(parts)
    units, index = list[LocatedUnit](), 0
    for unit in islice(split_units(0, text), MAX_UNITS + 1):
        while index + 1 < len(chunks) and chunks[index].end < unit.end:
            index += 1
        start, is_heading = unit.start - chunks[index].start, unit.block.kind == "heading"
        units.append(LocatedUnit(text[unit.start : unit.end], chunks[index], start, is_heading))
    return units


def _normalize(text: str) -> str:
    return " ".join(text.casefold().split())


def _quote(prepared: PreparedPrompt, rank: int | None, unit: LocatedUnit) -> Quote | None:
    """Return a unit as a quote of the passage with this rank; None if the prompt does not have it."""
    if rank is None or unit.start < 0:
        return None
    passage = unit.chunk.passage
    before = len(passage) - len(unit.chunk.text) - (len(passage) - len(passage.lstrip()))  # its context
    start = before + unit.start
    end = start + len(unit.text)
    is_there = start >= 0 and prepared.texts[rank - 1][start:end] == unit.text
    return Quote(rank, start, end, unit.text, unit.chunk.document_name) if is_there else None
