"""Split text into sentences and words. Free of torch, so that the UI can import it."""

import itertools
import re

SENTENCE_END = re.compile(r"(?<![.!?])[.!?]+(?=\s)|[。！？]+|\n+")  # noqa: RUF001  the lookbehind keeps '....' linear
ABBREVIATION = re.compile(
    r"(?<!\u00b0)\b(?:Mrs?|Ms|Dr|Prof|St|vs|e\.g|i\.e|Nr|Abs|[Tt]el|Str|incl|excl|ggf|evtl|ca|bzw|inkl|zzgl|z\.B|d\.h|[A-Z])\."
)
ORDINAL = re.compile(  # '12. Juli'
    r"\b\d{1,2}\.(?=\s+(?:Jan|Feb|M\u00e4r|Apr|Mai|Jun|Jul|Aug|Sep|Okt|Nov|Dez|Quartal|Jahrhundert|Stock|Etage))"
)
INNER_ABBREVIATION = re.compile(r"\b(?:[AaPp]\.[Mm]|etc|usw|resp)\.(?=\s+[a-z(\u00df-\u00ff])")  # 'at 10 a.m. by'
LIST_NUMBER = re.compile(r"\s*\d{1,3}\.(?=\s|$)")  # of '1. Take the ferry'
CITATION_MARK = re.compile(r"(?<= )\[(\d{1,3})\]")  # as `cite` writes it, after a space
NUMBER_SIGN = re.compile(
    r"\b(?:[Nn]o|[Ff]ig|[Ss]ec|[Ss]ect|[Aa]rt|[Ee]xt|[Rr]ef|approx|max|min|pp)\.(?=\s+(?:\d|$))"
)  # 'No. 5', but not 'No. It is not.'
NON_ENDS = (ABBREVIATION, INNER_ABBREVIATION, NUMBER_SIGN, ORDINAL)
UNSPACED_SCRIPTS = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"  # Chinese and Japanese: no spaces between words
WORD = re.compile(rf"\d+(?:[.,]\d+)*|[{UNSPACED_SCRIPTS}]|[^\W_{UNSPACED_SCRIPTS}]+")


def split_sentences(text: str) -> list[str]:
    """Split at line ends and at sentence ends followed by white space; the parts joined equal the text.

    The dot of 'Ms. Vale' or 'J. S. Bach' does not end a sentence, nor does the dot of a list number or of '12. Juli'.
    """
    non_ends = {match.end() for pattern in NON_ENDS for match in pattern.finditer(text)}
    bounds = [0]
    for match in SENTENCE_END.finditer(text):
        if match.end() not in non_ends and not LIST_NUMBER.fullmatch(text, bounds[-1], match.end()):
            bounds.append(match.end())
    return [text[start:end] for start, end in itertools.pairwise([*bounds, len(text)]) if end > start]


def split_words(text: str) -> list[str]:
    """Return the words in lower case; 1,684,000 is one word, each Chinese or Japanese character is one."""
    return WORD.findall(text.lower())
