"""Questions that a document suggests: those that its text asks and answers, such as an FAQ, and one per heading."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from engine.prompt.followups import needs_context
from engine.prompt.question_kind import split_parts
from store.markdown import HEADING, HEADING_END
from store.names import split_suffix, visible

MAX_PASSAGES = 128  # of a document that are read
MAX_QUESTIONS = 8  # of a document
MAX_LINE_CHARS = 160  # a longer line is neither a heading nor a question
MAX_TITLE_CHARS = 70
MAX_NAME_CHARS = 48  # in a question
NUMBER_OF_WORDS = range(2, 9)  # of a heading
NUMBER_OF_QUESTION_WORDS = range(3, 17)
MARKER = re.compile(  # of a list item or chapter: '3.', '2.1', 'b)', '\u00a7 4', 'Q:', 'Question 7:', 'Chapter 2:'
    r"(?:(?:[-*+>\u2022\u2013]|\(?\w[.)]|\(?\d{1,3}[.)]|\d{1,2}(?=\s+[^\W\d_])|\d{1,3}(?:\.\d{1,3})+\.?|\u00a7 ?\d+\w?"
    r"|[IVX]{1,5}\.|(?:Q|F|Question|Frage)(?: ?\d{1,3})?[.:)]"
    r"|(?:Chapter|Section|Article|Part|Kapitel|Abschnitt|Artikel|Teil) [\dIVX]{1,5}[.:]?)\s+)+",
    re.I,
)
CAPTION = re.compile(r"(?:Table|Tabelle|Tab\.) \d[\d.]*[.:]? ", re.I)
GENERIC = re.compile(  # headings that say nothing about what follows
    r"(?:table of )?contents|(?:list|index) of .*|(?:appendix|annex|anhang)\b.*|executive summary"
    r"|(?:page|slide|sheet|chapter|section|part|figure|seite|folie|kapitel|abschnitt|teil) ?[\divx]{1,5}\b.*"
    r"|see also|further reading|questions and answers|frequently asked questions"
    r"|about this (?:document|report|manual|guide)",
    re.I,
)
ABOUT = re.compile(r"^about ", re.I)
SMALL_WORD = re.compile(r"^(?:The|An?|Our|Your|What|How|Who|Why|When|Where|Which)\b")  # at the start of a heading
WORD = re.compile(r"[^\W\d_]{3,}")
SENTENCE_END = re.compile(r"[.!?]\s")
MARKUP = set("<>[]{}|\\^")
_CAPTION_LEVEL = 7


@dataclass(frozen=True, slots=True)
class _Line:
    text: str  # without markers and markup; empty if the line is long
    level: int = 0  # of a heading, or _CAPTION_LEVEL
    is_start: bool = False  # a heading, a list item, or the first line of a paragraph


def suggest_questions(name: str, texts: Sequence[str]) -> list[str]:
    """Return questions about the document `name` from the texts of its first passages, without duplicates.

    First those in the text that text follows; then one per heading and table caption, but for the document's title.
    """
    passages = [_lines(text) for text in texts]
    lines = [line for passage in passages for line in passage]
    titles = {split_suffix(name)[0].casefold(), *(line.text.casefold() for line in lines[:1])}
    if len(top := {line.text.casefold() for line in lines if line.level == 1}) == 1:
        titles |= top
    label = name if len(name) <= MAX_NAME_CHARS else f"{name[: MAX_NAME_CHARS - 1].rstrip()}\u2026"
    asked, about = [], []
    for line, following in (pair for passage in passages for pair in pairwise(passage)):
        if following.level in (0, _CAPTION_LEVEL) and not following.text.endswith("?"):
            if line.is_start and _is_question(line.text):
                asked.append(line.text)
            elif line.level and _is_topic(line.text) and line.text.casefold() not in titles:
                topic = SMALL_WORD.sub(lambda word: word[0].lower(), ABOUT.sub("", line.text))
                about.append(f"What does {label} say about {topic}?")
    questions: dict[str, str] = {}
    for question in [*asked, *about]:
        if len(split_parts(question)) == 1:
            questions.setdefault(question.casefold(), question)
    return list(questions.values())[:MAX_QUESTIONS]


def _lines(passage: str) -> list[_Line]:
    """Return the lines of a passage but for blank ones."""
    raw = ["", *passage.split("\n")]
    return [_line(line, is_start=not above.strip()) for above, line in pairwise(raw) if line.strip()]


def _line(raw: str, is_start: bool) -> _Line:
    if len(raw) > MAX_LINE_CHARS:
        return _Line("")
    heading = HEADING.match(raw)
    text = heading[2].rstrip(HEADING_END) if heading else raw
    text = visible(" ".join(text.split())).strip("*_` ")
    marker, caption = MARKER.match(text), None if heading else CAPTION.match(text)
    prefix = caption or marker
    text = text[prefix.end() :] if prefix else text
    level = len(heading[1]) if heading else _CAPTION_LEVEL if caption else 0
    return _Line(text.strip("*_` ").rstrip(".:"), level, is_start or bool(heading or marker))


def _is_question(text: str) -> bool:
    is_sentence = text[:1].isupper() and text.endswith("?") and not SENTENCE_END.search(text)
    has_words = len(text.split()) in NUMBER_OF_QUESTION_WORDS and not needs_context(text)
    return is_sentence and has_words and not MARKUP & set(text)


def _is_topic(title: str) -> bool:
    has_words = len(title.split()) in NUMBER_OF_WORDS and len(title) <= MAX_TITLE_CHARS and bool(WORD.search(title))
    is_plain = title[:1].isalnum() and "?" not in title and not MARKUP & set(title)
    return has_words and is_plain and not GENERIC.fullmatch(title)
