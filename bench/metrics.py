"""Answer metrics in [0, 1], as SQuAD, LongBench and RULER define them. The whole prediction is scored."""

import operator
import re
import string
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import jieba
from rouge import Rouge

Metric = Callable[[str, Sequence[str]], float]  # the prediction and the answers
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


def normalise(text: str) -> str:
    """Return SQuAD's normal form: lower case, no ASCII punctuation or articles, single spaces."""
    return " ".join(ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


@lru_cache(maxsize=1)
def _jieba() -> jieba.Tokenizer:
    """Load jieba's dictionary ourselves: jieba prints while loading, and trusts a cache file in /tmp."""
    tokenizer = jieba.Tokenizer()
    tokenizer.FREQ, tokenizer.total = tokenizer.gen_pfdict(tokenizer.get_dict_file())
    tokenizer.initialized = True
    return tokenizer


def words_zh(text: str) -> list[str]:
    """Return the words of a Chinese text as LongBench counts them: lower case, no punctuation or space."""
    words = ("".join(word.lower().translate(_NO_PUNCTUATION_ZH).split()) for word in _jieba().cut(text))
    return [word for word in words if word]


def _f1(predicted: list[str], reference: list[str]) -> float:
    """Return the harmonic mean of precision and recall."""
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


def _contains(prediction: str, answer: str) -> bool:
    """Return whether the answer occurs in the prediction, and not within a longer Latin word."""
    return bool(answer and re.search(f"(?<![a-z0-9]){re.escape(answer)}(?![a-z0-9])", prediction))


def _recall(prediction: str, answers: Sequence[str]) -> float:
    lowered = prediction.lower()
    return sum(answer.lower() in lowered for answer in answers) / len(answers) if answers else 0.0


def _not_answered(prediction: str, answers: Sequence[str]) -> float:
    return float(bool(NO_ANSWER.search(prediction.lower().replace("\u2019", "'"))))


def _best(score: Callable[[Any, Any], float], form: Callable[[str], Any] = str) -> Metric:
    """Return a metric that scores a prediction against the best-matching answer, both brought into a form."""
    return lambda prediction, answers: max(
        (float(score(form(prediction), form(answer))) for answer in answers), default=0.0
    )


METRICS: dict[str, Metric] = {
    "exact": _best(operator.eq, normalise),  # SQuAD (arXiv:1606.05250), as is f1
    "exact_zh": _best(operator.eq, words_zh),
    "f1": _best(_f1, lambda text: normalise(text).split()),
    "f1_zh": _best(_f1, words_zh),  # this and ROUGE: LongBench (arXiv:2308.14508), with the libraries it uses
    "rouge_l": _best(_rouge_l),
    "rouge_zh": _best(_rouge_l, lambda text: " ".join(_jieba().cut(text))),
    "contains": _best(_contains, lambda text: normalise(text.translate(_SPACED_MARKS))),  # lenient
    "recall": _recall,  # RULER's string_match_all (arXiv:2404.06654): the share of the references that are found
    "not_there": _not_answered,  # whether the prediction says that there is no answer
}
