"""Group words into segments and rows; join the lines of a paragraph."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from store.ingest.pdf.page import Word
from store.ingest.text import superscript

BREAK = "\v"  # a line end inside a paragraph, until `join_breaks` replaces it
MAX_SPACE = 0.8  # between words of a segment, in font sizes; TeX's narrowest gap between columns is 1
MAX_BASELINE_SHIFT = 0.35  # inside a row, in font sizes
MIN_OVERLAP = 0.15  # of the height of words on a line; ReportLab lowers text by half of its size
MAX_SCRIPT_SIZE = 0.85  # of raised or lowered numbers, relative to the text
MIN_SCRIPT_SHIFT = 0.15  # of their baseline, in font sizes of the text
MAX_SCRIPT_GAP = 0.1  # before them, likewise
SUSPENDED = re.compile("und|oder|bzw|sowie|bis|and|or|to|nor", re.I)  # after the hyphen of 'pre- and post-war'
COMPOUND_START = re.compile(
    "self|well|long|short|high|low|full|half|part|cross|non|ex|all|ever|late|early|hard|single|double|multi|one|two|"
    "three|four|five|six|seven|eight|nine|ten|first|second|third|year",
    re.I,
)
MAX_WORD = 100  # characters that are searched for the start of a word
CJK = re.compile("[\u3000-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uffef]")
OPEN = re.compile(r"\w-$")
HYPHENATED = re.compile(r"([^\W\d_]+)-$")
WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")


@dataclass(frozen=True, slots=True)
class Segment:
    """Words on one line without a wide gap between them: a line of a column, or a table's cell."""

    text: str
    x0: float
    top: float
    x1: float
    bottom: float
    baseline: float
    size: float
    bold: bool
    words: tuple[Word, ...]


def make_segment(words: Sequence[Word]) -> Segment:
    """Return the segment of words on a line; right-to-left text stays in the order of the file."""
    is_rtl = is_right_to_left("".join(word.text for word in words))
    words = sorted(words, key=lambda word: word.index if is_rtl else word.x0)
    sizes = Counter[float]()
    for word in words:
        sizes[round(word.size, 1)] += len(word.text)
    usual = sizes.most_common(1)[0][0]
    main = next(word for word in words if round(word.size, 1) == usual)
    top, bottom = main.baseline - 0.8 * main.size, main.baseline + 0.2 * main.size
    x0, x1 = min(word.x0 for word in words), max(word.x1 for word in words)
    return Segment(
        _text(words, main),
        x0,
        top,
        x1,
        bottom,
        main.baseline,
        main.size,
        all(word.bold for word in words),
        tuple(words),
    )


def _text(words: Sequence[Word], main: Word) -> str:
    """Return the text of words on a line: raised numbers are superscripts, and lowered ones follow without a space."""
    text, end, was_script = "", 0.0, False
    for word in words:
        shift = (word.baseline - main.baseline) / main.size
        is_script = word.size < MAX_SCRIPT_SIZE * main.size and abs(shift) > MIN_SCRIPT_SHIFT and word.text.isdecimal()
        is_attached = (is_script or was_script) and word.x0 - end < MAX_SCRIPT_GAP * main.size
        text += "" if is_attached or not text else " "
        text += superscript(word.text) if is_script and is_attached and text and shift < 0 else word.text
        end, was_script = word.x1, is_script
    return text


def build_segments(words: Iterable[Word]) -> list[Segment]:
    """Return the segments of words, in no particular order."""
    runs: list[list[Word]] = []
    for word in words:  # raised and lowered text follows the text it belongs to
        last = runs[-1][-1] if runs else None
        gap = max(word.x0 - last.x1, last.x0 - word.x1) if last else 0.0
        if last and _overlap(last, word) > MIN_OVERLAP and -word.size < gap < MAX_SPACE * min(last.size, word.size):
            runs[-1].append(word)
        else:
            runs.append([word])
    segments: list[Segment] = []
    for row in _cluster(map(make_segment, runs)):
        joined: list[list[Segment]] = []
        for segment in sorted(row, key=lambda segment: segment.x0):
            before = joined[-1][-1] if joined else None
            if before and -before.size < segment.x0 - before.x1 < MAX_SPACE * min(segment.size, before.size):
                joined[-1].append(segment)
            else:
                joined.append([segment])
        segments += [make_segment([word for part in parts for word in part.words]) for parts in joined]
    return segments


def rows_of(segments: Iterable[Segment]) -> list[list[Segment]]:
    """Return segments row by row from the top, each row from left to right, or right to left if it is such text."""
    rows = []
    for row in _cluster(segments):
        is_rtl = is_right_to_left("".join(segment.text for segment in row))
        rows.append(sorted(row, key=lambda segment: segment.x0, reverse=is_rtl))
    return rows


def is_right_to_left(text: str) -> bool:
    """Return whether most letters of a text are Arabic, Hebrew or the like."""
    if text.isascii():
        return False
    kinds = [unicodedata.bidirectional(character) for character in text]
    return sum(kind in ("R", "AL") for kind in kinds) > kinds.count("L")


def join_breaks(text: str, vocabulary: frozenset[str]) -> str:
    """Return text with its line ends resolved: as a space, or as nothing inside a hyphenated word."""
    lines = text.split(BREAK)
    parts: list[str] = []
    for line, following in pairwise(lines):
        parts += glue(line, following, vocabulary)
    return "".join([*parts, lines[-1]])


def glue(before: str, after: str, vocabulary: frozenset[str]) -> tuple[str, str]:
    """Return the text before a line end, without a hyphen that only breaks a word, and what separates it from `after`.

    `vocabulary` has the words of the document in lower case: the spelling that it uses elsewhere is right.
    """
    hyphenated = HYPHENATED.search(before[-MAX_WORD:]) if before.endswith("-") else None
    following = WORD.match(after)
    if not hyphenated or not following:
        is_open = before.endswith(("/", "\u2010", "\u2011")) or (OPEN.search(before[-2:]) and after[:1].isalnum())
        is_cjk = CJK.match(before[-1:]) and CJK.match(after[:1])
        return before, "" if is_open or is_cjk else " "
    start, end = hyphenated[1], following[0].split("-")[0]
    if SUSPENDED.fullmatch(end):
        return before, " "
    if (start + end).lower() in vocabulary:
        return before[:-1], ""
    is_name = end[0].isupper() and not (start.isupper() and len(start) > 3)
    are_words = {start.lower(), end.lower()} <= vocabulary
    is_compound = COMPOUND_START.fullmatch(start) or is_name or f"{start}-{end}".lower() in vocabulary
    is_compound = is_compound or (
        are_words and before[-MAX_WORD:][: hyphenated.start()].endswith("-")
    )  # 'state-of-the-art'
    return (before if is_compound else before[:-1]), ""


def vocabulary_of(pages: Iterable[Sequence[Word]]) -> frozenset[str]:
    """Return the words of pages in lower case, without parts of words that a line end may have broken."""
    texts = (
        word.text
        for words in pages
        for before, word in pairwise([Word("", 0, 0, 0, 0), *words])
        if not before.text.endswith("-") and not word.text.endswith("-")
    )
    return frozenset(word.lower() for text in texts for word in WORD.findall(text))


def _cluster(segments: Iterable[Segment]) -> list[list[Segment]]:
    """Return segments by baseline, from the top."""
    rows: list[list[Segment]] = []
    for segment in sorted(segments, key=lambda segment: (segment.baseline, segment.x0)):
        first = rows[-1][0] if rows else None
        if first and segment.baseline - first.baseline <= MAX_BASELINE_SHIFT * max(segment.size, first.size):
            rows[-1].append(segment)
        else:
            rows.append([segment])
    return rows


def _overlap(word: Word, other: Word) -> float:
    """Return how much of the smaller of two words' height both share."""
    shared = min(word.baseline, other.baseline) - max(word.baseline - word.size, other.baseline - other.size)
    return shared / (min(word.size, other.size) or 1.0)
