"""Answer metrics in [0, 1], as the benchmarks define them.

    exact, f1       SQuAD (arXiv:1606.05250): case, punctuation, articles and extra space ignored; best answer counts
    exact_zh        the same on Chinese words
    rouge_l, f1_zh, rouge_zh  LongBench (arXiv:2308.14508), with the libraries it uses
    recall          RULER's string_match_all (arXiv:2404.06654): share of the references found in the prediction
    not_there       whether the prediction says that there is no answer
    contains        lenient: an answer occurs in the prediction as whole words

The whole prediction is scored.
"""

import re
import string
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache

import jieba
from rouge import Rouge

NO_ANSWER = re.compile(
    r"\b(not|no|cannot|can't|doesn't|don't)\b[^.]{0,40}\b"
    r"(say|state|hold|mention|provide|contain|specif|information|answer|given|found|find"
    r")|\bnot (\w+ )?in the (passage|text|document)|\b(is|are|was|were|remains?) unknown\b|^\W*unknown\W*$"
)
ARTICLES = re.compile(r"\b(a|an|the)\b")
CHINESE_PUNCTUATION = (  # as LongBench lists it: without the opening double angle bracket
    "\uff01\uff1f\uff61\u3002\uff02\uff03\uff04\uff05\uff06\uff07\uff08\uff09\uff0a\uff0b\uff0c\uff0d\uff0f\uff1a\uff1b"
    "\uff1c\uff1d\uff1e\uff20\uff3b\uff3c\uff3d\uff3e\uff3f\uff40\uff5b\uff5c\uff5d\uff5e\uff5f\uff60\uff62\uff63\uff64"
    "\u3001\u3003\u300b\u300c\u300d\u300e\u300f\u3010\u3011\u3014\u3015\u3016\u3017\u3018\u3019\u301a\u301b\u301c"
    "\u301d\u301e\u301f\u3030\u303e\u303f\u2013\u2014\u2018\u2019\u201b\u201c\u201d\u201e\u201f\u2026\u2027\ufe4f"
)
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_SPACED_MARKS = str.maketrans({**dict.fromkeys(CHINESE_PUNCTUATION + "\u300a", " "), "\u2018": "'", "\u2019": "'"})
_NO_PUNCTUATION_ZH = str.maketrans("", "", string.punctuation + CHINESE_PUNCTUATION)


def exact(prediction: str, answers: Sequence[str]) -> float:
    """Return 1 if the prediction equals an answer after SQuAD's normalisation, else 0."""
    return float(any(normalise(prediction) == normalise(answer) for answer in answers))


def exact_zh(prediction: str, answers: Sequence[str]) -> float:
    """Return 1 if the prediction has the same words as an answer (see `f1_zh`), else 0."""
    return float(any(words_zh(prediction) == words_zh(answer) for answer in answers))


def f1(prediction: str, answers: Sequence[str]) -> float:
    """Return the harmonic mean of word precision and recall against the best-matching answer."""
    words = normalise(prediction).split()
    return max((_overlap(words, normalise(answer).split()) for answer in answers), default=0.0)


def f1_zh(prediction: str, answers: Sequence[str]) -> float:
    """Return `f1` on jieba's Chinese words, without Chinese and ASCII punctuation."""
    words = words_zh(prediction)
    return max((_overlap(words, words_zh(answer)) for answer in answers), default=0.0)


def rouge_l(prediction: str, answers: Sequence[str]) -> float:
    """Return ROUGE-L's F against the best-matching answer; 0 if either has no words."""
    return max((_rouge_l(prediction, answer) for answer in answers), default=0.0)


def rouge_zh(prediction: str, answers: Sequence[str]) -> float:
    """Return `rouge_l` on jieba's Chinese words."""
    return rouge_l(" ".join(_jieba().cut(prediction)), [" ".join(_jieba().cut(answer)) for answer in answers])


def contains(prediction: str, answers: Sequence[str]) -> float:
    """Return 1 if an answer occurs in the prediction, both normalised, and not within a longer Latin word."""
    predicted, *references = (normalise(text.translate(_SPACED_MARKS)) for text in (prediction, *answers))
    return float(
        any(re.search(f"(?<![a-z0-9]){re.escape(answer)}(?![a-z0-9])", predicted) for answer in references if answer)
    )


def recall(prediction: str, answers: Sequence[str]) -> float:
    """Return the share of the answers that occur in the prediction, ignoring case."""
    lowered = prediction.lower()
    return sum(answer.lower() in lowered for answer in answers) / len(answers) if answers else 0.0


def not_answered(prediction: str, answers: Sequence[str]) -> float:
    """Return 1 if the prediction says that the passages do not contain the answer."""
    return float(bool(NO_ANSWER.search(prediction.lower().replace("\u2019", "'"))))


METRICS: dict[str, Callable[[str, Sequence[str]], float]] = {
    "exact": exact,
    "exact_zh": exact_zh,
    "f1": f1,
    "f1_zh": f1_zh,
    "rouge_l": rouge_l,
    "rouge_zh": rouge_zh,
    "contains": contains,
    "recall": recall,
    "not_there": not_answered,
}


def normalise(text: str) -> str:
    """Return SQuAD's normal form: lower case, no ASCII punctuation or articles, single spaces."""
    return " ".join(ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


def words_zh(text: str) -> list[str]:
    """Return the words of a Chinese text as LongBench counts them: lower case, no punctuation or space."""
    words = ("".join(word.lower().translate(_NO_PUNCTUATION_ZH).split()) for word in _jieba().cut(text))
    return [word for word in words if word]


def _overlap(predicted: list[str], reference: list[str]) -> float:
    common = sum((Counter(predicted) & Counter(reference)).values())
    return 2 * common / (len(predicted) + len(reference)) if common else 0.0


def _rouge_l(prediction: str, answer: str) -> float:
    # The library splits sentences at full stops and rejects a text of nothing else.
    if not prediction.replace(".", " ").strip() or not answer.replace(".", " ").strip():
        return 0.0
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(limit + len(prediction.split()) + len(answer.split()))  # the library recurses over words
    try:
        return float(Rouge(metrics=["rouge-l"]).get_scores(prediction, answer)[0]["rouge-l"]["f"])
    finally:
        sys.setrecursionlimit(limit)


@lru_cache(maxsize=1)
def _jieba() -> jieba.Tokenizer:
    """Load jieba's dictionary ourselves: jieba prints while loading, and trusts a cache file in /tmp."""
    tokenizer = jieba.Tokenizer()
    tokenizer.FREQ, tokenizer.total = tokenizer.gen_pfdict(tokenizer.get_dict_file())
    tokenizer.initialized = True
    return tokenizer
