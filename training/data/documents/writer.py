"""Write the pieces of a document, with the questions that each of them answers: what prose and tables share."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

from training.data.documents import phrasing
from training.data.documents.vocabulary import Attribute
from training.data.documents.world import Entity, Question, World

REWORDED_FRACTION = 0.15  # of the sections are reworded in a second version
JOINED_FRACTION = 0.25  # of the statements are joined to the one before


@dataclass
class Piece:
    """Text that is not split, and the questions it answers."""

    text: str
    questions: list[Question] = field(default_factory=list)
    is_heading: bool = False
    is_row: bool = False  # of a table that continues
    has_pronoun: bool = False  # for something that the piece before it names


@dataclass
class Passage:
    """A passage and the questions that it answers."""

    context: str
    questions: list[Question]
    phrased: list[tuple[str, Question]] = field(default_factory=list)  # drawn questions with their text

    def to_row(self) -> dict[str, Any]:
        """Return the row of a corpus."""
        qas = [
            {
                "question": text,
                "answers": [question.answer] if question.type != "unanswerable" else [],
                "type": question.type,
            }
            for text, question in self.phrased
        ]
        return {"context": self.context, "qas": qas}


@dataclass
class Document:
    """A document, split into passages."""

    world: World
    passages: list[Passage]

    @property
    def text(self) -> str:
        """All passages, in lower case."""
        return "\n".join(passage.context for passage in self.passages).casefold()


class Writer:
    """Writes a document piece by piece."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.pieces: list[Piece] = []
        self._lists = world.words.lists
        self._topics: dict[str, list[list[tuple[str, ...]]]] = {}
        self._count = 0

    def heading(self, text: str, level: int) -> None:
        """Add a heading."""
        self.pieces.append(Piece(f"{'#' * level} {text}", is_heading=True))

    def write(self, content: str) -> None:
        """Add one content of a section, like 'table:site' or 'list:risks'."""
        self._count += 1
        name, *arguments = content.split(":")
        rng = self.world.rng("section", self._count, content, reworded=REWORDED_FRACTION)
        getattr(self, f"_write_{name}")(rng, *arguments)

    def _value_question(
        self, type: str, entity: Entity, attribute: Attribute, answer: str, period: str = "", text: str = ""
    ) -> Question:
        """Ask for a value that `text` holds; it may start a sentence there."""
        answer = answer if not text or answer in text else answer[:1].upper() + answer[1:]
        ask = partial(self._ask_value, attribute, entity, period)
        return Question(type, (entity.name, attribute.name, period), answer, ask, (entity, attribute))

    def _ask_value(self, attribute: Attribute, entity: Entity, period: str, rng: Random) -> str:
        is_implicit = entity is self.world.subject and rng.random() < 0.35
        return phrasing.ask_value(self.world, attribute, entity, rng, period, is_implicit)

    def _ask_whether(self, attribute: Attribute, entity: Entity, value: str, rng: Random) -> str:
        name = phrasing.entity_in_question(entity, rng)
        template = rng.choice(self._lists["ask_whether"])
        return self.world.fill(template, rng, e=name, l=rng.choice(attribute.nouns), v=value)

    def _ask_filled(self, templates: Sequence[str], given: dict[str, str], rng: Random) -> str:
        return self.world.fill(rng.choice(templates), rng, **given)

    def _paragraph(self, rng: Random, statements: Sequence[Piece], topic: str, fillers: int) -> None:
        """Add a paragraph of statements with other sentences between them; of many, two paragraphs."""
        sentences = list[Piece]()
        for piece in statements:
            is_joined = sentences and rng.random() < JOINED_FRACTION and _can_join(sentences[-1], piece)
            if is_joined:
                sentences[-1] = self._join(sentences[-1], piece, rng)
            else:
                sentences.append(piece)
        for _ in range(fillers):
            entry = self._take("fill", topic if rng.random() < 0.8 else "general") or [("",)]
            text = self.world.sentence(entry[0][0], rng) if entry[0][0] else ""
            places = [at for at in range(len(sentences) + 1) if at == len(sentences) or not sentences[at].has_pronoun]
            if text:
                sentences.insert(rng.choice(places), Piece(text))
        if sentences:
            questions = [question for piece in sentences for question in piece.questions]
            self.pieces.append(Piece(" ".join(piece.text for piece in sentences), questions))

    def _join(self, first: Piece, second: Piece, rng: Random) -> Piece:
        """Join two statements to one sentence; it cannot support an answer to a yes/no question."""
        is_same = {q.subject and q.subject[0] for q in first.questions} == {
            q.subject and q.subject[0] for q in second.questions
        }
        joint = rng.choice(self._lists["joint"][: 1 if is_same else None])
        text = f"{first.text[:-1]}{joint} {self._lower(second.text)}"
        questions = [question for question in (*first.questions, *second.questions) if question.type != "yes/no"]
        if any(question.answer not in text for question in questions):
            return first
        return Piece(text, questions, has_pronoun=first.has_pronoun)

    def _take(self, directive: str, topic: str) -> list[tuple[str, ...]] | None:
        """Return an entry that this document has not used yet."""
        name = f"{directive} {topic}"
        if name not in self._topics:
            self._topics[name] = list(self.world.words.entries.get(name, ()))
            self.world.rng("order", name).shuffle(self._topics[name])
        entries = self._topics[name]
        return entries.pop() if entries else None

    def unused_questions(self) -> list[Question]:
        """Return questions for rules, lists and steps of the document's topics that it does not have."""
        world, found = self.world, []
        for name, entries in self._topics.items():
            for entry in entries:
                given = self._given(world.rng("unused", entry[0]))
                if name.startswith("rule"):
                    ask = partial(self._ask_filled, entry[0], given)
                elif name.startswith("steps"):
                    infinitive, gerund = (world.fill(task, world.rng("unused"), **given) for task in entry[0])
                    ask = partial(self._ask_filled, self._lists["ask_steps"], dict(i=infinitive, g=gerund))
                elif name.startswith("list"):
                    asks = [ask for ask in self._lists["ask_list"] if "{c}" not in ask]
                    ask = partial(self._ask_filled, asks, dict(n=entry[0][-1]))
                else:
                    continue
                found.append(Question("unanswerable", (name, entry[0][0]), "", ask, absent=entry[0][-1]))
        return found

    def _given(self, rng: Random) -> dict[str, str]:
        """Return words for the slots that a statement and its question share."""
        world = self.world
        given = {name: world.fill(f"{{{name}}}", rng) for name in ("person", "place", "product", "company", "goods")}
        given |= {"S": world.subject.name}
        return given | ({"product": world.subject.name} if world.kind.subject == "product" else {})

    def _lower(self, template: str) -> str:
        first = template.split(" ")[0]
        return template[:1].lower() + template[1:] if first in self._lists["lower_word"] else template


def _can_join(first: Piece, second: Piece) -> bool:
    """Return whether two statements of values are short enough for one sentence."""
    is_short = len(first.text) + len(second.text) < 160
    return is_short and all(question.subject for question in (*first.questions, *second.questions))
