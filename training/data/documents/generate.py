"""Compose documents, split them into passages, and draw questions so that the types have their shares."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random

from store.markdown import contexts_at
from training.data.documents import phrasing
from training.data.documents.derived import absent_questions, multi_questions
from training.data.documents.followups import follow_ups
from training.data.documents.prose import ProseWriter
from training.data.documents.ranges import RangeWriter
from training.data.documents.tables import TableWriter
from training.data.documents.vocabulary import read_vocabulary
from training.data.documents.world import Question, World
from training.data.documents.writer import Document, Passage, Piece

SHARES = {  # of the questions, in percent
    **{"table": 23, "reverse": 3, "superlative": 3, "column": 2, "range": 2, "fact": 20, "list": 7, "steps": 5},
    **{"yes/no": 5, "reason": 5, "dated": 3, "multi": 2, "followup": 6, "unanswerable": 14},
}
GERMAN_FRACTION = 0.15
FAMILY_FRACTION = 0.45  # of the kinds that have versions are written in two
QUESTIONS_PER_PASSAGE = 4.5
MIN_WORDS, MAX_WORDS = 60, 440  # of a passage
MIN_PASSAGES, MAX_PASSAGES = 3, 12
REPEATED = (
    "list",
    "steps",
    "yes/no",
    "reason",
    "dated",
    "column",
    "range",
)  # types whose questions occur twice, rephrased
MAX_USES = 2
NAMED_DOCUMENT_FRACTION = 0.15  # of the questions about no entity, besides those that cannot be answered
ABSENT_FOLLOW_UP_FRACTION = 0.25  # as many unanswerable questions follow another one, relative to those that do not
NUM_COMPARED = 8  # candidates, of which the one whose passage has the fewest questions is chosen


def write_documents(count: int, seed: int, out: Path) -> Counter[str]:
    """Write the passages of `count` documents as JSON lines; return the number of questions by type."""
    types = Counter[str]()
    with out.open("w", encoding="utf-8") as file:
        for passages in generate_documents(count, seed):
            for passage in passages:
                file.write(json.dumps(passage.to_row(), ensure_ascii=False) + "\n")
                types.update(question.type for _, question in passage.phrased)
    return types


def generate_documents(count: int, seed: int) -> Iterator[list[Passage]]:
    """Yield the passages of each document; two versions of a document follow each other."""
    counts = Counter[str]()
    recent: list[str] = []
    done = number = 0
    while done < count:
        rng = Random(f"{seed} {number}")
        language = "german" if rng.random() < GERMAN_FRACTION else "english"
        kinds = [kind for kind in read_vocabulary(language).kinds if kind.name not in recent]
        kind = rng.choice(kinds)
        recent = [*recent, kind.name][-5:]
        is_family = kind.version != "none" and rng.random() < FAMILY_FRACTION and count - done > 1
        worlds = [World(f"{seed} {number}", language, kind, version, is_family) for version in range(1 + is_family)]
        writers = [_write_document(world) for world in worlds]
        family = [Document(world, _split(world, writer.pieces)) for world, writer in zip(worlds, writers, strict=True)]
        unused = [{question.key: question for question in writer.unused_questions()} for writer in writers]
        missing = [question for key, question in unused[0].items() if all(key in other for other in unused)]
        for index, document in enumerate(family):
            others = family[:index] + family[index + 1 :]
            _ask(document, others, missing, Random(f"{seed} {number} questions {index}"), counts)
            yield document.passages
        done += len(family)
        number += 1


class DocumentWriter(ProseWriter, TableWriter, RangeWriter):
    """Writes every kind of content."""


def _write_document(world: World) -> DocumentWriter:
    rng = world.rng("layout")
    writer = DocumentWriter(world)
    goal = rng.choice((300, 450, 600, 800, 1000, 1300))
    has_headings = rng.random() < 0.9
    if has_headings:
        writer.heading(world.title, 1)
    sections = [section for section in world.kind.sections if rng.random() < 0.85] or list(world.kind.sections)
    level = rng.choice((2, 2, 2, 3))
    for headings, contents in sections * 3:
        if sum(_num_words(piece.text) for piece in writer.pieces) >= goal:
            break
        if has_headings:
            writer.heading(world.fill(rng.choice(headings), rng), level)
        before = len(writer.pieces)
        for content in contents:
            options = content.split("/")
            writer.write(rng.choice(options))
        if len(writer.pieces) == before and has_headings:
            writer.pieces.pop()
    return writer


def _split(world: World, pieces: Sequence[Piece]) -> list[Passage]:
    """Split a document into passages at ends of pieces; each starts with the document's name and headings."""
    rng = world.rng("split")
    text, offsets = "", []
    for piece in pieces:
        if text:
            text += "\n" if piece.is_row else "\n\n"
        offsets.append(len(text))
        text += piece.text
    contexts = contexts_at(text, offsets)
    total = _num_words(text)
    words_at_least = max(MIN_WORDS + 10, total // (MAX_PASSAGES - 1))
    words_at_most = max(words_at_least + 1, min(260, total // MIN_PASSAGES))
    groups: list[list[int]] = [[]]
    goal = rng.randint(words_at_least, words_at_most)
    words = 0
    for index, piece in enumerate(pieces):
        is_after_heading = index > 0 and pieces[index - 1].is_heading
        more = _num_words(piece.text)
        if groups[-1] and not is_after_heading and (words >= goal or words + more > MAX_WORDS):
            groups.append([])
            goal, words = rng.randint(words_at_least, words_at_most), 0
        groups[-1].append(index)
        words += more
    if len(groups) > 1 and words < MIN_WORDS:
        last = groups.pop()
        groups[-1] += last
    passages = []
    for group in groups:
        start, end = offsets[group[0]], offsets[group[-1]] + len(pieces[group[-1]].text)
        header = " > ".join([world.stem, *contexts[group[0]]])
        questions = [question for index in group for question in pieces[index].questions]
        passages.append(Passage(f"{header}\n\n{text[start:end]}", questions))
    return passages


def _ask(
    document: Document, others: Sequence[Document], missing: Sequence[Question], rng: Random, counts: Counter[str]
) -> None:
    """Draw questions for the passages of a document: the next type is the one that `counts` lacks most."""
    world, passages = document.world, document.passages
    by_type = _candidates(document, others, rng)
    text = "\n".join(each.text for each in (document, *others))
    absent = [question for question in missing if question.absent.casefold() not in text]
    by_type["unanswerable"] += [
        (rng.choice(passages), question) for question in rng.sample(absent, min(4, len(absent)))
    ]
    for candidates in by_type.values():
        rng.shuffle(candidates)
    by_type["column"].sort(key=lambda pair: pair[1].key[3] != "none")  # few have one
    siblings = {
        question.key: question.answer
        for other in others
        for passage in other.passages
        for question in passage.questions
    }
    answers: dict[str, str] = {}
    uses = Counter[tuple[str, tuple[str, ...]]]()
    for _ in range(round(QUESTIONS_PER_PASSAGE * len(passages))):
        available = [type for type, candidates in by_type.items() if candidates]
        if not available:
            break
        total = sum(counts.values()) + 1
        chosen = max(available, key=lambda type: SHARES[type] * total / sum(SHARES.values()) - counts[type])
        candidates = by_type[chosen]
        nearest = min(range(min(NUM_COMPARED, len(candidates))), key=lambda at: len(candidates[at][0].phrased))
        passage, question = candidates.pop(nearest)
        uses[chosen, question.key] += 1
        if chosen in REPEATED and uses[chosen, question.key] < MAX_USES:
            by_type[chosen].append((passage, question))
        text = question.ask(rng)
        if not question.is_finished:
            text = phrasing.finish(world, _qualify(world, question, text, siblings, rng), rng)
        if answers.setdefault(text, question.answer) == question.answer and (text, question) not in passage.phrased:
            passage.phrased.append((text, question))
            counts[chosen] += 1


def _candidates(
    document: Document, others: Sequence[Document], rng: Random
) -> dict[str, list[tuple[Passage, Question]]]:
    """Return the questions about a document by type, without those to which it has two answers."""
    by_type: dict[str, list[tuple[Passage, Question]]] = {type: [] for type in SHARES}
    stated: dict[tuple[str, tuple[str, ...]], set[str]] = {}
    for question in (question for passage in document.passages for question in passage.questions):
        stated.setdefault((question.type, question.key), set()).add(question.answer.casefold())
    for passage in document.passages:
        for question in [*passage.questions, *multi_questions(document.world, passage, rng)]:
            if len(stated.get((question.type, question.key), ())) > 1:
                continue
            assert question.type in ("yes/no", "multi") or question.answer in passage.context, question
            by_type[question.type].append((passage, question))
    absent = absent_questions(document, others, rng)
    pairs = [pair for candidates in by_type.values() for pair in candidates]
    by_type["followup"] = follow_ups(document, others, pairs, pairs, rng)
    after_others = follow_ups(document, [], pairs, absent, rng)
    count = min(len(after_others), round(ABSENT_FOLLOW_UP_FRACTION * len(absent)))
    by_type["unanswerable"] = absent + rng.sample(after_others, count)
    return by_type


def _qualify(world: World, question: Question, text: str, siblings: Mapping[tuple[str, ...], str], rng: Random) -> str:
    """Add the version or the document to a question, if it needs it, and sometimes otherwise."""
    if question.key[0] == "unrelated":
        return text
    is_changed = question.key in siblings and siblings[question.key] != question.answer
    if world.is_family and world.version_label not in text and not _has_year(question):
        if rng.random() < (1.0 if is_changed or question.type == "superlative" else 0.2):
            return phrasing.add_version(world, text, rng)
    elif not question.subject and rng.random() < (0.9 if question.type == "unanswerable" else NAMED_DOCUMENT_FRACTION):
        qualifier = rng.choice(world.words.lists["in_document"]).replace("{T}", world.title)
        return phrasing.add_qualifier(world, text, qualifier, rng)
    return text


def _has_year(question: Question) -> bool:
    return bool(question.subject) and question.key[2].isdigit()


def _num_words(text: str) -> int:
    return len(text.split())
