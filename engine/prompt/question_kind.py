"""Recognize what kind of answer a question asks for, in English and German.

Rules on its words: a model would be slower and no more reliable on so little text. In doubt a question asks for a fact.
"""

import re
from enum import Enum

from engine.prompt.followups import needs_context


class QuestionKind(Enum):
    """What an answer should be."""

    FACT = "fact"
    YES_NO = "yes or no"
    LIST = "list"
    STEPS = "steps"
    SUMMARY = "summary"
    COMPARISON = "comparison"
    SMALL_TALK = "small talk"  # a greeting, thanks, or a question about the application


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.I)


FILLER = re.compile(
    r"(?:(?:please|bitte|ok(?:ay)?|so|and|und|well|just|(?:can|could|would) you|kannst du)[,:]? )+", re.I
)
GREETING = (
    r"(?:hi|hello|hey|hallo|moin|good (?:morning|afternoon|evening|day)|guten (?:morgen|tag|abend))(?: there| all)?"
    r"|(?:many )?(?:thanks?|thank you|thx)(?: a lot| so much| very much)?|(?:vielen )?dank(?:e ?(?:sch\u00f6n|sehr)?)?"
)
ABOUT_THE_APPLICATION = (
    r"what (?:can|could|do) you (?:actually |really )?(?:do|help|know)\b.*|(?:who|what) are you|help(?: me)?|hilfe"
    r"|how (?:do|does|can) (?:you|this|i use (?:you|this))(?: app| tool)?(?: work)?|how are you(?: doing)?(?: today)?"
    r"|was kannst du.*|wer bist du|wie funktionierst du|wie geht(?: s| es dir)"
    r"|(?:good)?bye|tsch\u00fcss|auf wiedersehen|ok(?:ay)?|great|cool|super"
)
SMALL_TALK = re.compile(rf"(?:{GREETING})? ?(?:{ABOUT_THE_APPLICATION})?", re.I)
PATTERNS = {  # the first that matches decides
    QuestionKind.SUMMARY: _any(
        r"\bsummar|\boverview\b|\bgist\b|\b(?:main|key) (?:points|ideas|message|takeaways)|\btl;?dr\b",
        r"\bin (?:a few|two|three|short|brief) sentences\b|\b(?:in short|briefly|in brief)\b|\bwhat is .+ about\b",
        r"\bzusammenfass|\bfass\w* .*zusammen|\b\u00fcberblick\b|\bworum geht|\bin wenigen s\u00e4tzen|\bkurz gesagt",
    ),
    QuestionKind.COMPARISON: _any(
        r"\bcompar|\bdiffer|\bversus\b|\bvs\b|\bchang\w+ (?:between|from|since|in)\b",
        r"\b(?:has|have|had|did|was|were) .+ chang|\bwhat(?:'s| has| is)? (?:changed|new)\b|\bbetter than\b",
        r"\bvergl(?:eich|ich)|\bunterschied|\bge\u00e4ndert\b|\bim gegensatz",
    ),
    QuestionKind.STEPS: _any(
        r"\bhow (?:do|can|should|would|could|to|must)\b(?!(?: \w+)? (?:know|reach|contact)\b)",
        r"\bsteps?\b|\bprocedure\b|\binstructions? (?:for|to)\b|\bwhat (?:do|must|should) (?:i|we) (?:have to )?do\b",
        r"\bwie (?!viel|lang|hoch|oft|gro\u00df|schwer|alt|teuer|weit)\w+ (?:ich|man|wir)\b",
        r"\bschritt(?:e|weise)?\b|\bder reihe nach\b|\banleitung\b",
    ),
    QuestionKind.LIST: _any(
        r"^(?:list|name|enumerate|nenne?n?|aufz\u00e4hl)\b|\b(?:list|name) (?:all|every|the)",
        r"\bwhat (?:are|were) (?:all )?(?:the|its|their|our)? ?(?:\w+ )*\w+s\b",
        r"\bwhich (?:\w+ ){0,2}\w+s (?:are|were|do|does|did|have|has|can|may|must|will|in)\b",
        r"\bin (?:which|what) (?:\w+ )?(?:situations|cases|places|countries)",
        r"\bwhat (?:things|items|documents|topics|points)\b|\bwhat (?:did|does|do|must|has|have) .+ (?:have )?to \w+\b",
        r"\bwelche (?:\w+ )?\w+(?:en|e|er|n|s) (?:gibt|sind|waren|haben|hat|werden|geh\u00f6ren|m\u00fcssen)",
        r"\bz\u00e4hl\w* .* auf\b|\bnenn\w* (?:mir )?(?:alle|die)",
    ),
    QuestionKind.YES_NO: re.compile(
        r"^(?:is|are|was|were|do|does|did|can|could|may|must|should|will|would|has|have|had|am"
        r"|ist|sind|war|waren|darf|d\u00fcrfen|kann|k\u00f6nnen|muss|m\u00fcssen|soll|hat|haben|gibt|gilt|wird|werden|bin)\b"
        r"(?!.* (?:or|oder) )",
        re.I,
    ),
}
NEXT_PART = re.compile(
    r"(?:,? (?:and|und)|;) (?:also )?"
    r"(?=(?:who|whom|whose|what(?:'s)?|when|where|why|how|which|wer|was|wann|wo|warum|wie|welche[rsnm]?|wieviel)\b)",
    re.I,
)


def question_kind(question: str) -> QuestionKind:
    """Return what kind of answer a question asks for."""
    words = " ".join(re.sub(r"[^\w\s]+", " ", question).split())
    if SMALL_TALK.fullmatch(words):
        return QuestionKind.SMALL_TALK
    request = FILLER.sub("", question.strip(), count=1)
    return next((kind for kind, pattern in PATTERNS.items() if pattern.search(request)), QuestionKind.FACT)


def split_parts(question: str) -> list[str]:
    """Return the parts of a question that contains several: 'Who built it, and when was it opened?'.

    A part that cannot be understood alone follows the part before it.
    """
    parts = [f"{part.strip(' ,;?.')}?" for part in NEXT_PART.split(question.strip())]
    if len(parts) == 1 or any(len(part.split()) < 2 for part in parts):
        return [question.strip()]
    return [f"{parts[i - 1]} {part}" if i and needs_context(part) else part for i, part in enumerate(parts)]
