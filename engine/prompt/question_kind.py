"""Recognize what kind of answer a question asks for, in English and German.

Rules on its words: a model would be slower and no more reliable on so little text. In doubt a question asks for a fact.
"""

import re
from enum import Enum

from engine.prompt.followups import needs_context
from store.german import FUNCTION_WORD


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
    r"^(?:(?:please|bitte|ok(?:ay)?|so|and|und|well|just|(?:can|could|would) you|kannst du)[,:]? )+", re.I
)
GREETING = (
    r"(?:hi|hello|hey|hallo|moin|good (?:morning|afternoon|evening|day)|guten (?:morgen|tag|abend))(?: there| all)?"
    r"|(?:many )?(?:thanks?|thank you|thx|cheers)(?: a lot| so much| very much)?"
    r"|(?:(?:vielen|besten|herzlichen) )?dank(?:e ?(?:sch\u00f6n|sehr)?)?"
)
ABOUT_THE_APPLICATION = (
    r"what (?:can|could|do) you (?:actually |really )?(?:do|help|know)\b.*|(?:who|what) are you|help(?: me)?|hilfe"
    r"|how (?:do|does|can) (?:you|this|i use (?:you|this))(?: app| tool)?(?: work)?|how are you(?: doing)?(?: today)?"
    r"|was kannst du.*|wer bist du|wie funktionierst du|wie geht(?: s| es dir)"
    r"|what (?:(?:sort|kind)s? of )?(?:things|questions) can i ask(?: you)?|what can i ask(?: you)?(?: about)?"
    r"|what else can you do|was kannst du .+|(?:that|this|it) (?:really )?help(?:s|ed)(?: me)?(?: a lot)?"
    r"|(?:(?:that|this|it|you|you ve|you have)(?: s| was| is| were| are| been)? )?(?:(?:a|very|really|so|most) )*"
    r"(?:(?:great|big|huge|real|lot of|good) help|helpful|useful)"
    r"|das hat (?:mir )?(?:sehr |wirklich )?geholfen|(?:good)?bye|tsch\u00fcss|auf wiedersehen|ok(?:ay)?"
    r"|great|cool|super|perfect|perfekt|nice|prima|wunderbar"
)
SMALL_TALK = re.compile(rf"(?:{GREETING})? ?(?:{ABOUT_THE_APPLICATION})?", re.I)
REQUEST = (
    r"please|list|name|show|give|tell|find|summar\w*|explain|compare|what|who|when|where|why|how|which"
    r"|bitte|nenn\w*|zeig\w*|fass\w*|erkl\u00e4r\w*|sag\w*|wer|wann|wo|warum|wie|welche\w*"
)
THANKS = re.compile(  # and nothing else that asks for something
    rf"(?:(?:al)?right|ok(?:ay)?|great|cool|perfect|super|prima|gut)?[ ,]*(?:thanks?|thx|cheers|danke)\b"
    rf"(?!.*(?:[.,;:!]|\b(?:and|but|now|then|und|aber|jetzt|nun)) *(?:{REQUEST})\b)[^?]{{0,100}}",
    re.I | re.S,
)
GERMAN_AUXILIARY = (
    r"ist|sind|war|waren|darf|d\u00fcrfen|kann|k\u00f6nnen|muss|m\u00fcssen|soll|hat|haben|gibt|gilt|wird|werden|bin"
)
PLURAL = r"(?:people|children|(?!(?:was|is|has|does|\w*(?:ss|us))\b)\w+s)"
PLURAL_VERB = (
    r"(?:(?:never|always|also|only|still) )?(?:(?:are|were|do|did|have|must|ca)n.?t|are|were|do(?:es)?|did|has|have|can"
    r"|may|must|will|in|mean|need|cost"
    r"|include|cover|count|apply|contain|come|get|go|require|take|belong|qualify|offer|use|allow|show|give|make|run"
    r"|start|end|work|remain|went|ran|got|took|made|gave|came|sold|spent|won|lost|paid|rose|fell|grew|left|met|\w+ed)"
)
AUXILIARY = rf"is|are|was|were|do|does|did|can|could|may|must|should|will|would|has|have|had|am|{GERMAN_AUXILIARY}"
VERB_FIRST = (  # in German: 'Brauche ich ...?', 'Kostet der ...?'
    r"\w{2,}en? (?:ich|wir|man|sie)|\w{2,}t (?:man|es|er|sie|sich|der|die|das|mein\w*|unser\w*)"
)
BRIEFLY = r"briefly|in (?:(?:a few|two|three|short|brief) (?:sentences|words)|short|brief|a nutshell)"
PATTERNS = {  # the first that matches decides
    QuestionKind.SUMMARY: _any(
        r"\bsummar|\bsum up\b|\boverview\b|\b(?:rundown|recap)\b|\bgist\b|\btl;?dr\b",
        r"\b(?:main|key) (?:points|ideas|message|takeaways)",
        rf"^(?!.*\bchang).*\b(?:{BRIEFLY})\b",
        r"\bwhat(?:'s| s|'re| is| are) .+ about\b",
        r"\bzusammenfass|\bfass\w*\b.* zusammen|\b\u00fcberblick\b|\bworum geht|\bin wenigen s\u00e4tzen|\bkurz gesagt",
    ),
    QuestionKind.COMPARISON: _any(
        r"\bcompar|\bdiffer|\bversus\b|\bvs\b|\bchang\w+ (?:between|from|since|in)\b",
        r"\b(?:has|have|had|did|was|were) (?!.*\bto be chang).+ chang|\bwhat(?:'s| has| is)? (?:changed|new)\b",
        r"\bthan (?:under|in|before)\b|\bhow much (?:more|less|\w{2,}er)\b.* than\b|\bwie ?viel \w{3,}er\b.* als\b",
        r"\b(?:19|20)\d\d\b.* (?:and|or|to|than|vs|und|oder|auf|als) .*\b(?:19|20)\d\d\b",
        r"\b(?:newer|new|current)\b.* (?:and|or|than|to|as) .*\bold(?:er)?\b",
        r"\bold(?:er)?\b.* (?:and|or|than|to|as) .*\bnew",
        r"\b(?:which|who|what)\b.* (?:more|less|\w{2,}er)\b.* or ",
        r"\b(?:did|do|does|is|are|was|were)\b.* or .* (?:more|less)\b|^(?:was|wer|welche\w*)\b.* \w{4,}er\b.* oder ",
        r"\bvergl(?:eich|ich)|\bunterschied|\bunterscheide|\bge\u00e4ndert\b|\bim gegensatz",
    ),
    QuestionKind.STEPS: _any(
        r"\bhow did (?:you|we|one|people|employees|staff)\b"
        r"|\bhow (?:do|can|should|would|could|to|must)\b(?!(?: \w+)? (?:know|reach|contact)\b)|\bhow does one\b",
        r"\bsteps?\b|\bprocedure\b|\binstructions? (?:for|to)\b|\bwhat (?:do|must|should) (?:i|we) (?:have to )?do\b",
        r"\b(?:walk|talk|guide) me through\b|\bwhat to do\b|\bwie (?:l\u00e4uft|gehe?) .+ (?:ab|vor)\b",
        r"^was (?:muss|soll|kann|mache?) (?:ich|man|wir)\b.*\b(?:machen|tun)\b|^was (?:mache|tue) ich\b|\bzu tun\b",
        r"\bwie (?!viel|lang|hoch|oft|gro\u00df|schwer|alt|teuer|weit)\w+ (?:ich|man|wir)\b",
        r"\bschritt(?:e|weise)?\b|\bder reihe nach\b|\banleitung\b",
    ),
    QuestionKind.LIST: _any(
        r"^(?:list|name|enumerate|nenne?n?|aufz\u00e4hl)\b|\b(?:list|name) (?:all|every|the)"
        r"|^(?:the )?names of (?:all|the|our|every)\b",
        r"\bwhat \w+s (?:are|were|do|does|did|can|may|must)\b",
        r"\bwhat (?:are|were) (?:all )?(?:the|its|their|our)? ?(?:\w+ )*\w+s\b",
        rf"(?<!between )\bwhich (?:of (?:the|these|those|my|our|your|its) )?(?:[\w-]+ ){{0,2}}{PLURAL} {PLURAL_VERB}\b",
        rf"\bwhich (?:[\w-]+ ){{0,2}}{PLURAL} (?:over|above|under|below|of|from|in|on|at|with|without|since|before"
        r"|after|by|for)\b.{1,60} (?:are|were|have|do|did|(?:are|were|have|do|did)n.?t)\b",
        r"^(?:show|give|find|get)(?: (?:me|us))? (?:all|every)\b|^zeige?n?(?: (?:mir|uns))? alle\b",
        r"^(?:show|give|find|get)(?: (?:me|us))? (?:the )?(?:\w+ )?\w+s"
        r" (?:that|which|with|without|of|from|over|under|in)\b",
        r"\bwelche (?:\w+ )?\w+(?:en|e|er|n|s|l) (?:mit|ohne|von|vom|aus|im|in|\u00fcber|unter|ab|seit|vor|nach)\b"
        r".{1,60} (?:sind|waren|haben|werden|wurden)\b",
        r"\bwhat (?:other )?(?:kinds|types|sorts) of\b|\bwas f\u00fcr \w+(?:en|er|e|n|s)\b",
        r"\bin (?:which|what) (?:\w+ )?(?:situations|cases|places|countries)",
        r"\bwhat (?:isn.?t|is not|is|are|aren.?t|are not) (?:not )?(?:covered|included|excluded|allowed)\b",
        r"\bwhat (?:jobs|tasks|duties|actions)\b",
        r"\bwhat (?:things|items|documents|topics|points)\b",
        r"\bwhat (?:did|does|do|must|has|have) (?!it (?:cost|take|mean)\b).+ (?:have )?to \w+\b",
        r"\bwelche (?:\w+ )?\w+(?:en|e|er|n|s|l) (?:gibt|sind|waren|haben|hat|werden|geh\u00f6ren|m\u00fcssen"
        r"|k\u00f6nnen|kann|d\u00fcrfen|bekomm|brauch|decken|stehen|fehlen|bietet|enth)",
        r"\b(?:an|in|auf|bei|zu) welchen \w+n\b",
        r"\bwhat(?:['\u2019 ]?s| is| comes?| should be) (?:all )?"
        r"(?:in(?:side)? (?:the|my) (?:box|carton|package|kit)|included)\b"
        r"|\bwas ist im (?:lieferumfang|karton|paket)|\ball (?:of )?the \w+s,? please\b",
        r"^was (?:ist|sind|war|waren|wird|werden) (?:denn )?alles\b|^what all\b",
        r"^(?:the )?(?:top|main|key|biggest|major) (?:\w+ )?\w+s\b(?!.*\b(?:is|are|was|were|did|does?|has|have)\b)"
        r"|\bwho (?:all|makes? up|sits on|are (?:the|our|its))\b"
        r"|^wer (?:\w+ )+alles\b|^wer geh\u00f6rt (?:alles )?z|^wer sitzt (?:\w+ ){0,2}im\b",
        r"\bz\u00e4hl\w* .* auf\b|\bnenn\w* (?:mir )?(?:alle|die)|\b(?:all of them|bitte alle|alle bitte)\b",
    ),
    QuestionKind.YES_NO: re.compile(
        rf"(?:^|[.!] )(?:[^,?.!]{{3,60}}, )?(?:(?!was (?:steht|{GERMAN_AUXILIARY})\b|was\b.*{FUNCTION_WORD.pattern})"
        rf"(?:{AUXILIARY})|{VERB_FIRST})\b(?!.* (?:or|oder) )",
        re.I,
    ),
}
QUESTION_WORD = r"who|whom|whose|what(?:'s)?|when|where|why|how|which|wer|was|wann|wo|warum|wie|welche[rsnm]?|wieviel"
PREPOSITION = r"by|in|at|from|since|until|till|to|for|on|ab|bis|seit|mit|von|zu|auf|an|f\u00fcr"
PART_START = rf"(?=(?:(?:{PREPOSITION}) )?(?:{QUESTION_WORD})\b)"
NEXT_PART = re.compile(rf"(?:,? (?:and|und)|;) (?:also )?{PART_START}", re.I)
ANY_PART = re.compile(rf"(?:,? (?:and|und)|;|,) (?:also )?{PART_START}", re.I)  # also of three: 'who, when and where'
ONE_WORD_PART = re.compile(rf"(?:{QUESTION_WORD})\?", re.I)
ASKS = re.compile(rf"\b(?:{QUESTION_WORD})\b|^(?:{AUXILIARY}|{REQUEST})\b", re.I)


def question_kind(question: str) -> QuestionKind:
    """Return what kind of answer a question asks for."""
    sentences = [" ".join(re.sub(r"[^\w\s]+", " ", part).split()) for part in re.split(r"[.!?]+", question)]
    if all(map(SMALL_TALK.fullmatch, sentences)) or THANKS.fullmatch(question.strip()):
        return QuestionKind.SMALL_TALK
    request = FILLER.sub("", question.strip(), count=1)
    return next((kind for kind, pattern in PATTERNS.items() if pattern.search(request)), QuestionKind.FACT)


def split_parts(question: str) -> list[str]:
    """Return the parts of a question that contains several: 'Who built it, and when was it opened?'.

    A part that cannot be understood alone follows the part before it; of 'When is it and where?' the second part is
    'Where is it?'.
    """
    split = ANY_PART if NEXT_PART.search(question) else NEXT_PART
    parts = [f"{part.strip(' ,;?.')}?" for part in split.split(question.strip())]
    end = split.search(question.strip())
    if end and end[0].strip() == "," and not ASKS.search(parts[0]):  # 'Leaving the rent aside, what ...'
        parts[:2] = [f"{parts[0][:-1]}, {parts[1]}"]
    if len(parts) > 1 and ONE_WORD_PART.fullmatch(parts[0]):  # 'When and where is it?'
        parts[0] = f"{parts[0][:-1]} {parts[1].partition(' ')[2]}"
    if len(parts) == 1 or len(parts[0].split()) < 2:
        return [question.strip()]
    for i, part in enumerate(parts[1:], start=1):
        if ONE_WORD_PART.fullmatch(part) and ASKS.match(parts[i - 1]):
            parts[i] = f"{part[:-1]} {parts[i - 1].partition(' ')[2]}"
        elif needs_context(part):
            parts[i] = f"{parts[i - 1]} {part}"
    return parts
