"""Invented facts in different passages: their sentences, the question, and the paragraphs they are hidden in."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice
from random import Random

from bench.data.item import Item, TokenCounter
from bench.errors import InvalidArgument
from bench.multi_passage.source import TaskSource
from engine.text import split_sentences

NUM_CHAINS = 3  # the one that the question asks for, and competing ones
MAX_ATTEMPTS = 100  # for a question that is new, and whose names the file does not contain


@dataclass(frozen=True)
class FactSample:
    """A question and its facts, before they are hidden in paragraphs."""

    question: str
    answer: str
    terms: tuple[str, ...]  # names and values that no paragraph may contain
    hide: Callable[[list[str]], list[str]]  # maps paragraphs to as many passages with the facts


@dataclass(frozen=True)
class TwoFacts:
    """Two facts that share a bridge; the question names the subject and asks for the answer.

    Wordings are alternatives with the slots {subject}, {bridge} and {answer}.
    """

    draw: Callable[[Random], tuple[str, str, str]]  # subject, bridge, answer
    first: tuple[str, ...]  # {subject} and {bridge}
    second: tuple[str, ...]  # {bridge} and {answer}
    question: str  # {subject}

    def sample(self, rng: Random, second_comes_first: bool) -> FactSample:
        """Return a question with competing facts of the same kind, about other subjects, bridges and answers."""
        chains: list[tuple[str, str, str]] = []
        while len(chains) < NUM_CHAINS:
            drawn = self.draw(rng)
            known = [*drawn, *(term for chain in chains for term in chain)]
            if len({*known}) == len(known):
                chains.append(drawn)
        pairs = []
        for subject, bridge, answer in chains:
            slots = {"subject": subject, "bridge": bridge, "answer": answer}
            pair = [_sentence(rng.choice(wordings).format(**slots)) for wordings in (self.first, self.second)]
            pairs.append(pair[::-1] if second_comes_first else pair)

        def hide(paragraphs: list[str]) -> list[str]:
            passages = list(paragraphs)
            for pair in rng.sample(pairs, len(pairs)):
                places = rng.sample(range(len(passages)), len(pair))
                for place, sentence in zip(sorted(places) if second_comes_first else places, pair, strict=True):
                    passages[place] = insert_sentence(passages[place], sentence, rng)
            return passages

        subject, _, answer = chains[0]
        terms = tuple(term for chain in chains for term in chain)
        return FactSample(self.question.format(subject=subject), answer, terms, hide)


def insert_sentence(passage: str, sentence: str, rng: Random) -> str:
    """Return the passage with a sentence after a random one of its sentences; headings stay alone on their lines."""
    parts = split_sentences(passage)
    place = rng.choice([number for number, part in enumerate(parts, 1) if not part.endswith("\n")])
    return "".join([*parts[:place], " ", sentence, *parts[place:]])


def fact_items(
    task: str, sample: Callable[[Random], FactSample], source: TaskSource, count_tokens: TokenCounter
) -> Iterator[Item]:
    """Yield items with different questions, without end.

    Item i depends only on the task, the source (file, seed, number of passages) and i. Raises InvalidArgument if there
    are no more questions, or too few paragraphs without the invented names.
    """
    seen: set[str] = set()
    for number in count():
        for attempt in range(MAX_ATTEMPTS):
            rng = Random(f"{task} {source.seed} {number} {attempt}")
            drawn = sample(rng)
            paragraphs = _draw_paragraphs(source, drawn.terms, rng)
            if drawn.question not in seen and len(paragraphs) == source.num_passages:
                break
        else:
            fewer = "Give fewer --num-samples, fewer --passages or a larger file"
            raise InvalidArgument(f"{source.file} allows no more than {number} questions of {task}. {fewer}.")
        seen.add(drawn.question)
        yield Item(
            id=f"{task}-{source.seed}-{number}",
            question=drawn.question,
            passages=tuple(drawn.hide(paragraphs)),
            answers=(drawn.answer,),
            group=f"{source.group} {task}",
            metric="f1",
        )


def _draw_paragraphs(source: TaskSource, terms: Sequence[str], rng: Random) -> list[str]:
    """Return random paragraphs that contain none of the terms; fewer if there are not enough."""
    term = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, terms))})(?!\w)", re.IGNORECASE)
    shuffled = rng.sample(source.paragraphs, len(source.paragraphs))
    return list(islice((text for text in shuffled if not term.search(text)), source.num_passages))


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]
