"""Recognise an answer that says, in English or German, that the documents hold no answer."""

import re

SOURCES = r"\b(passages?|documents?|texts?|sources?|excerpts?|context|files?)\b"
QUELLEN = r"\b(abschnitte?n?|passagen?|textstellen?|dokumente?n?|unterlagen|quellen?|texte?n?|ausz[uü]ge?n?)\b"
NOT = r"(do|does|did|is|are|was|were|can|could)( ?not|nt)( \w+)?"
DECLINED = (
    rf"\b{NOT} (say|tell|state|mention|specify|indicate|disclose|reveal)\b",
    rf"{SOURCES}.{{0,40}}\b{NOT} (hold|contain|give|provide|include|list|cover|have|answer|address|name)\b",
    rf"\b{NOT}( be| able to)* (find|found|locate|answer|determine|help)\b",
    rf"\b{NOT} (give|provide|contain|include|list)\b.{{0,30}}\b(information|details?|answers?|price|figures?|names?)\b",
    r"\bunable to (find|answer|determine|locate)\b|\b(i|we) (do not|dont) (know|have)\b",
    r"\bnot( \w+)? (found|given|provided|included|listed|contained|covered|available|answered|present|in)\b"
    rf".{{0,20}}\b(the|your|these|my|any|provided|given)( \w+)? {SOURCES}",
    r"\b(is|are|was|were)( not|nt)( \w+)? (mentioned|stated|specified|disclosed|known|indicated)\b",
    r"\bno (information|mention|answer|details?|data|indication)\b|\bunknown\b|\bonly answer\b",
    r"\bno\b.{0,40}\b(is|are|was|were) (given|stated|mentioned|specified|listed|named|provided)\b",
    rf"\b(none|no|nothing)( of| in)?( the| your| these)?( \w+)? {SOURCES}",
    r"\bnicht( \w+)? (genannt|erwähnt|angegeben|bekannt|aufgeführt|beantwort\w*|hervor|gefunden|finden)\b",
    r"\bnichts( \w+)? gefunden\b|\bfinde\b.{0,30}\bnichts\b|\b(nennt|nennen|erwähnt|sagt)\b.{0,30}\b(nicht|keine?n?)\b",
    rf"{QUELLEN}.{{0,40}}\b(nicht|nichts|keine?n?)\b|\b(nicht|nichts|keine?n?)\b.{{0,40}}{QUELLEN}",
    r"\bkeine (angaben?|informationen?|auskunft|antwort|hinweise?)\b|\bweiß (ich )?(es )?nicht\b",
)
_DECLINED = re.compile("|".join(DECLINED))
_YES_OR_NO = re.compile(r"\W*(yes|no|ja|nein)\b\W*[,;:.!\u2013\u2014-]")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")


def is_refusal(text: str) -> bool:
    """Return whether a sentence of the text declines to answer."""
    return any(map(_declines, _sentences(text)))


def opens_with_refusal(text: str) -> bool:
    """Return whether the first sentence declines; one that begins with yes or no answers the question."""
    first = _sentences(text)[0]
    return _declines(first) and not _YES_OR_NO.match(first.casefold())


def _sentences(text: str) -> list[str]:
    return _SENTENCE_END.split(text.strip())


def _declines(sentence: str) -> bool:
    # casefold would turn the German sharp s of the patterns into two letters
    return bool(_DECLINED.search(re.sub("['\u2019*]", "", sentence.lower())))
