"""Items from data sets: which questions, in which order, over which passages.

A paragraph's question (SQuAD) gets other paragraphs of the same file beside the one that answers it, as retrieval
would bring them; they are drawn by the seed and the question's id, so an item is the same in every larger sample.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from random import Random

from bench.data.formats import RawQuestion, read_questions
from bench.data.item import Item
from bench.errors import InvalidDataset

# LongBench's for short answers; many tokenizers need two tokens per Chinese character
NEW_TOKENS = {"f1": 32, "f1_zh": 64}


def load_items(source: str, num_passages: int, seed: int, samples: int | None, absent: bool = False) -> list[Item]:
    """Return `samples` items of a file or a hub data set in a seeded order, or all; fewer are a prefix of more.

    Rows with passages of their own ignore `num_passages`. `absent` leaves out the gold paragraph; the correct answer is
    then that there is none. Raises InvalidDataset and DatasetsMissing.
    """
    group, questions = read_questions(source)
    if not questions:
        raise InvalidDataset(f"{source} has no question with an answer.")
    if absent and not all(one.paragraph for one in questions):
        raise InvalidDataset(f"{source} has questions with passages of their own: no gold paragraph to leave out.")
    items = list(islice(make_items(group, questions, num_passages, seed, absent), samples))
    if not items:
        raise InvalidDataset(f"{source} has no question that the other paragraphs leave open. Give a larger file.")
    return items


def make_items(
    group: str, questions: Sequence[RawQuestion], num_passages: int, seed: int, absent: bool = False
) -> Iterator[Item]:
    """Yield an item for each question, in a seeded order; see `load_items`."""
    raw = _with_ids(questions, group)
    paragraphs = list(dict.fromkeys(one.paragraph for one in raw if one.paragraph))
    Random(seed).shuffle(raw)
    metric = _select_metric(" ".join(text for one in raw for text in (one.question, *one.answers)))
    for one in raw:
        rng = Random(f"{seed} {one.id}")
        passages = one.passages or _with_distractors(one, paragraphs, num_passages + absent, rng)
        item = Item(one.id, one.question, passages, one.answers, group, metric, max_new_tokens=NEW_TOKENS[metric])
        if absent:
            others = tuple(each for each in passages if each != one.paragraph and not _has_answer(each, one.answers))
            if not others:
                continue
            item = replace(item, passages=others, answers=(), group=f"{group} without answer", metric="not_there")
        yield item


def _select_metric(text: str) -> str:
    """Return 'f1_zh' if most letters of the questions and answers are Chinese, else 'f1'."""
    letters = [letter for letter in text if letter.isalpha()]
    chinese = sum("\u3400" <= letter <= "\u9fff" for letter in letters)
    return "f1_zh" if 2 * chinese > len(letters) else "f1"


def _with_ids(questions: Sequence[RawQuestion], group: str) -> list[RawQuestion]:
    """Give each question a unique id."""
    by_id: dict[str, RawQuestion] = {}
    for number, one in enumerate(questions):
        name = one.id or f"{group}-{number}"
        while name in by_id:
            name += f"-{number}"
        by_id[name] = replace(one, id=name)
    return list(by_id.values())


def _with_distractors(one: RawQuestion, paragraphs: Sequence[str], count: int, rng: Random) -> tuple[str, ...]:
    """Return the gold paragraph at a random position among others; those without the answer's text are preferred."""
    others = [paragraph for paragraph in paragraphs if paragraph != one.paragraph]
    rng.shuffle(others)
    chosen = list(islice((other for other in others if not _has_answer(other, one.answers)), count - 1))
    chosen += [other for other in others if other not in chosen][: count - 1 - len(chosen)]
    chosen.insert(rng.randrange(len(chosen) + 1), one.paragraph)
    return tuple(chosen)


def _has_answer(paragraph: str, answers: Sequence[str]) -> bool:
    text = paragraph.casefold()
    return any(answer.casefold() in text for answer in answers)
