"""Items from data sets: which questions, in which order, over which passages.

A paragraph's question (SQuAD) gets other paragraphs of the same file beside the one that answers it, as retrieval
would bring them; they are drawn by the seed and the question's id, so an item is the same in every larger sample.
"""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from bench.data.formats import RawQuestion, parse_questions
from bench.data.item import Item, Splitter
from bench.data.sources import read_rows
from bench.errors import InvalidDataset

NEW_TOKENS = {"f1": 32, "f1_zh": 64}  # LongBench's for short answers; many tokenizers take two tokens a character


def load_items(
    source: str, passages: int, cut: Splitter, seed: int, samples: int | None, absent: bool = False
) -> list[Item]:
    """Return `samples` items of a file or a hub data set in a seeded order, or all of them.

    source    a path, or `owner/name` or `owner/name:config:split` on the hub
    passages  how many a paragraph's question gets, fewer when the file has fewer; rows that bring their own passages
              keep them, and a long text has as many as `cut` makes of it
    absent    leave the paragraph that answers out: right is then to say that the passages do not say

    The first n of a larger sample are the sample of n. Raises BadData for a source that cannot be read or has no
    usable question, and NoHub.
    """
    if passages < 1 or (samples is not None and samples < 1):
        raise ValueError(f"passages and samples must be at least 1, got {passages} and {samples}")
    group, found = read_rows(source)
    asked = _named([one for row in found for one in parse_questions(row)], group)
    if not asked:
        raise InvalidDataset(f"{source} holds no question that has an answer.")
    if absent and not all(one.paragraph for one in asked):
        raise InvalidDataset(f"{source} has questions that bring their own passages: no paragraph can be left out.")
    paragraphs = list(dict.fromkeys(one.paragraph for one in asked if one.paragraph))
    Random(seed).shuffle(asked)
    metric = select_metric(" ".join(text for one in asked for text in (one.question, *one.answers)))
    items = [_item(one, group, metric, passages + absent, cut, seed, paragraphs) for one in asked[:samples]]
    return [_without(item, one.paragraph) for item, one in zip(items, asked, strict=False)] if absent else items


def select_metric(text: str) -> str:
    """Return 'f1_zh' when most letters of a file's questions and answers are Chinese, else 'f1'."""
    letters = [letter for letter in text if letter.isalpha()]
    chinese = sum("\u3400" <= letter <= "\u9fff" for letter in letters)
    return "f1_zh" if 2 * chinese > len(letters) else "f1"


def _named(asked: list[RawQuestion], group: str) -> list[RawQuestion]:
    """Return the questions with an id each; a row without one, or with one that was seen before, is counted."""
    named: dict[str, RawQuestion] = {}
    for number, one in enumerate(asked):
        name = one.id or f"{group}-{number}"
        while name in named:
            name += f"-{number}"
        named[name] = replace(one, id=name)
    return list(named.values())


def _item(
    one: RawQuestion, group: str, metric: str, passages: int, cut: Splitter, seed: int, paragraphs: Sequence[str]
) -> Item:
    given = one.passages
    if one.long:
        given = tuple(cut(one.long))
    elif one.paragraph:
        given = with_distractors(one.paragraph, paragraphs, one.answers, passages, Random(f"{seed} {one.id}"))
    return Item(one.id, one.question, given, one.answers, group, metric, max_new_tokens=NEW_TOKENS[metric])


def _without(item: Item, gold: str) -> Item:
    """Return the item without the paragraph that answers it."""
    others = tuple(passage for passage in item.passages if passage != gold)
    return replace(item, passages=others, answers=(), group=f"{item.group} without answer", metric="not_there")


def with_distractors(
    gold: str, paragraphs: Sequence[str], answers: Sequence[str], passages: int, draw: Random
) -> tuple[str, ...]:
    """Return `gold` at a random place among others, those first that hold no answer literally, case aside."""
    others = [paragraph for paragraph in paragraphs if paragraph != gold]
    draw.shuffle(others)
    wanted = [answer.casefold() for answer in answers]
    clean: list[str] = []
    answering: list[str] = []
    for other in others:
        if len(clean) == passages - 1:
            break
        said = other.casefold()
        (answering if any(answer in said for answer in wanted) else clean).append(other)
    chosen = [*clean, *answering][: passages - 1]
    chosen.insert(draw.randrange(len(chosen) + 1), gold)
    return tuple(chosen)
