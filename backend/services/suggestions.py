"""Questions that a document suggests: those that its text asks and answers, such as an FAQ, and one per heading."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from engine.prompt.followups import needs_context
from engine.prompt.question_kind import split_parts
from engine.prompt.titles import ABOUT, ARTICLE, CAPTION_LEVEL, parse_title
from store.ingest.language import language_of
from store.names import split_suffix

MAX_PASSAGES = 128  # of a document that are read
MAX_QUESTIONS = 8  # of a document
MAX_LINE_CHARS = 160  # a longer line is neither a heading nor a question
MAX_TITLE_CHARS = 70
MAX_NAME_CHARS = 48  # in a question
NUMBER_OF_WORDS = range(2, 9)  # of a heading
NUMBER_OF_QUESTION_WORDS = range(3, 17)
GENERIC = re.compile(  # headings that say nothing about what follows
    r"(?:table of )?contents|(?:list|index) of .*|(?:appendix|annex|anhang)\b.*|executive summary"
    r"|(?:page|slide|sheet|chapter|section|part|figure|seite|folie|kapitel|abschnitt|teil) ?[\divx]{1,5}\b.*"
    r"|see also|further reading|questions and answers|frequently asked questions"
    r"|about this (?:document|report|manual|guide)",
    re.I,
)
SMALL_WORD = re.compile(r"^(?:The|An?|Our|Your|What|How|Who|Why|When|Where|Which)\b")  # at the start of a heading
WORD = re.compile(r"[^\W\d_]{3,}")
SENTENCE_END = re.compile(r"[.!?]\s")
MARKUP = set("<>[]{}|\\^")


@dataclass(frozen=True, slots=True)
class _Line:
    text: str  # without markers and markup; empty if the line is long
    level: int = 0  # of a heading, or CAPTION_LEVEL
    is_start: bool = False  # a heading, a list item, or the first line of a paragraph


def suggest_questions(name: str, texts: Sequence[str]) -> list[str]:
    """Return questions about the document `name` from the texts of its first passages, without duplicates.

    First those in the text that text follows; then one per heading and table caption, but for the document's title. The
    latter are in German if the text is.
    """
    passages = [_lines(text) for text in texts]
    lines = [line for passage in passages for line in passage]
    first = [line for line in lines[:1] if line.level <= 1 or line.level == CAPTION_LEVEL]
    titles = {split_suffix(name)[0].casefold(), *(line.text.casefold() for line in first)}
    if len(top := {line.text.casefold() for line in lines if line.level == 1}) == 1:
        titles |= top
    label = name if len(name) <= MAX_NAME_CHARS else f"{name[: MAX_NAME_CHARS - 1].rstrip()}\u2026"
    is_german = language_of("\n\n".join(texts)) == "German"
    asked, about = [], []
    for line, following in (pair for passage in passages for pair in pairwise(passage)):
        if following.level in (0, CAPTION_LEVEL) and not following.text.endswith("?"):
            if line.is_start and _is_question(line.text):
                asked.append(line.text)
            elif line.level and _is_topic(line.text) and line.text.casefold() not in titles:
                about.append(_about(label, line.text, is_german))
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
    title = parse_title(raw)
    is_start = is_start or title.has_marker or 0 < title.level < CAPTION_LEVEL
    return _Line(title.text, title.level, is_start)


def _about(label: str, title: str, is_german: bool) -> str:
    topic = ABOUT.sub("", title)
    if is_german:
        return f"Was steht in {label} \u00fcber {ARTICLE.sub('', topic)}?"
    return f"What does {label} say about {SMALL_WORD.sub(lambda word: word[0].lower(), topic)}?"


def _is_question(text: str) -> bool:
    is_sentence = text[:1].isupper() and text.endswith("?") and not SENTENCE_END.search(text)
    has_words = len(text.split()) in NUMBER_OF_QUESTION_WORDS and not needs_context(text)
    return is_sentence and has_words and not MARKUP & set(text)


def _is_topic(title: str) -> bool:
    has_words = len(title.split()) in NUMBER_OF_WORDS and len(title) <= MAX_TITLE_CHARS and bool(WORD.search(title))
    is_plain = title[:1].isalnum() and "?" not in title and not MARKUP & set(title)
    return has_words and is_plain and not GENERIC.fullmatch(title)
