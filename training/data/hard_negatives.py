"""Find the passages that a question is most easily taken to be answered by (hard negatives, arXiv:2007.00808)."""

from collections.abc import Sequence
from itertools import chain, islice

import numpy as np

from engine.prompt.template import NO_ANSWER
from store.types import Embedder
from training.data.corpus import Corpus, answer_pattern

MAX_PARAGRAPHS = 200  # of a corpus about one subject; in a larger one the neighbours of a paragraph are drawn instead
MAX_PASSAGES = 4  # per question


def hard_negatives(corpora: Sequence[Corpus], embedder: Embedder) -> dict[str, tuple[str, ...]]:
    """Return for the questions of small corpora the passages that search finds first, without those that answer.

    Of a question without an answer these are the first ones of all.
    """
    negatives = dict[str, tuple[str, ...]]()
    for corpus in corpora:
        if len(corpus.paragraphs) > MAX_PARAGRAPHS:
            continue
        texts = [text for paragraph in corpus.paragraphs for text in paragraph.passages]
        pairs = [pair for paragraph in corpus.paragraphs for pair in paragraph.questions]
        pairs += [(each, NO_ANSWER) for paragraph in corpus.paragraphs for each in paragraph.unanswerable]
        segments = [embedder.segments(text) for text in texts]
        vectors = embedder.embed([*chain(*segments), *(question for question, _ in pairs)])
        num_segments = len(vectors) - len(pairs)
        cosines = vectors[num_segments:] @ vectors[:num_segments].T
        first_segments = np.cumsum([0, *map(len, segments[:-1])])
        order = np.argsort(-np.maximum.reduceat(cosines, first_segments, axis=1), axis=1, kind="stable")
        for (question, answer), row in zip(pairs, order, strict=True):
            pattern = answer_pattern(answer)
            others = (texts[index] for index in row if not pattern.search(texts[index]))
            negatives[question] = tuple(islice(others, MAX_PASSAGES))
    return negatives
