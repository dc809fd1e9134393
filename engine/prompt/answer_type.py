"""What the answer to a question must contain, by its question word: a number, a time or a name (answer typing).

Source: Li and Roth, Learning Question Classifiers, 2002, of which these are the coarse classes that need no model.
"""

import re
from dataclasses import dataclass

from engine.prompt.question_kind import AUXILIARY, PREPOSITION, QUESTION_WORD
from store.markdown import parse_row


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.I)


LENGTH = _any(r"\bhow (?:long|quickly|soon)\b|\bwie ?lange?\b")  # of time or space
RATE = _any(
    r"\b(?:what|which|how (?:high|much|big)) (?:\w+ ){0,3}?(?:(?:interest|tax|vat|discount) rate|percentage)\b",
    r"^(?:the )?(?:interest|tax|vat) rate\b",
    r"\b(?:welche[rn]?|wie hoch (?:ist|war)(?: der)?) (?:\w+ )?(?:zins|steuer|prozent)satz\b",
)
REFERENCE = _any(
    r"\b(?:order|part|article|item|reference|invoice|serial|customer|registration|company) (?:number|no\.?|code)\b",
    r"\b(?:policy|account|contract|booking|passport) number\b",
    r"\bnumber of (?:my|our|your|the) (?:\w+ ){0,2}(?:policy|account|contract|booking|ticket|invoice|order|passport)"
    r"(?=\W*$| (?:for|with|at|in|from|please|pls)\b)",
    r"\b(?:bestell|artikel|teile|kunden|rechnungs|serien|vertrags|akten|versicherungs|policen|konto)(?:nummer|zeichen)\b",
)
MONEY = _any(
    r"\bhow (?:much|expensive)\b.*\b(?:costs?|pays?|paid|earns?|charged?|rent|fees?|deposit|salary|fined?)\b",
    r"\bhow expensive\b",
    r"^what .*\b(?:price|cost|fee|rent|deposit|salary)s?\b"
    r"|^what (?:is|are|was|were|do(?:es)?|did|will|would) .*\b(?:paid|pay|earn|charged?|owe)\b"
    r"(?! (?:by|with|in|online)\b)",
    r"\bset (?:me|us|you|one) back\b|\bwas\b.{0,100}\b(?:gekostet|(?:be|ge)zahlt|ausgegeben)\b|\bwas (?:be)?zahl",
    r"\bwas kostet\b|\bwie teuer\b|\bwie ?viel (?:kostet|zahl|bezahl|verdien)",
    r"\bhow much\b.*\b(?:spen[dt]|spending)\b",
    r"\bwie ?viel\b.{0,100}\b(?:(?:be|ge|aus|ein)?zahlt|kosten|gekostet|ausgegeben|eingenommen|verdient)\b",
)
QUANTITY = _any(
    r"\bhow (?:much|many|long|old|far|high|tall|wide|big|large|heavy|expensive|fast|loud|often|deep|hot|warm|cold)\b",
    r"\bwie ?(?:viele?n?|hoch|lange?|alt|weit|gro\u00df|schwer|teuer|schnell|laut|oft|tief|breit|warm|hei\u00df)\b",
    r"\bper ?cent(?:age)?\b|\bprozentsatz\b|^was kostet\b|^what .*\b(?:price|cost|fee|temperature|extension)\b",
)
EMAIL = _any(r"\be-?mail[- ]?ad+ress|\bmailadresse")
PHONE = _any(r"\b(?:tele)?phone number|\b(?:telefon|handy|mobil|ruf|durchwahl)nummer")
DAY = _any(r"\b(?:what|which|welche[mnrs]?) (?:week)?days?\b|\bwelche[mnrs]? (?:wochen)?tage?n?\b")
TIME = _any(
    r"^(?:(?:by|since|until|till|from|to|bis|ab|seit|f\u00fcr) )?(?:when|wann)\b",
    r"\b(?:what|which|welche[mnrs]?) (?:time|date|month|year|datum|monat|jahr|uhrzeit)\b|\bum wie ?viel uhr\b",
)
PERSON = _any(r"^(?:(?:to|from|with|mit|von|an|bei) )?(?:who|whom|whose|wer|wem|wen|wessen)\b")
EXCLUSION = _any(  # of an insurance or a warranty; in questions and in answers
    r"(?:\bnot|n['\u2019]t) (?:be )?(?:cover(?:ed)?|insured?|included?)\b|\bexclu(?:ded|des?|sions?)\b",
    r"\bnicht (?:mit)?(?:versichert|abgedeckt|enthalten|eingeschlossen)\b|\bausgeschlossen\b"
    r"|\bausschl(?:uss|\u00fcsse)",
)
REASON = _any(r"\b(?:why|warum|wieso|weshalb|how come)\b")
SECOND_REQUEST = re.compile(  # '..., and can I still use it?'
    rf"\b(?:and|und) (?:(?:also|then|still|auch|dann|noch) )?(?:(?:(?:{PREPOSITION}) )?(?:{QUESTION_WORD})\b"
    rf"|(?:{AUXILIARY}) (?:I|i|we|you|it|they|he|she|the|there|my|our|ich|wir|man|es|er|sie|der|die|das)\b)"
)

NUMBER_WORD = (
    r"one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|dozen|half|once|twice|daily|weekly|monthly|yearly"
    r"|annual(?:ly)?|every|each|free|nothing|none|nil|no|unlimited"
    r"|eine?[mnrs]?|zwei|drei|vier|f\u00fcnf|sechs|sieben|acht|neun|zehn|elf|zw\u00f6lf|halb\w*|t\u00e4glich"
    r"|w\u00f6chentlich|monatlich|j\u00e4hrlich|jede[mnrs]?|kostenlos|kostenfrei|frei|nichts|keine?[nr]?"
)
UNIT = (  # that may follow a number as a word
    r"seconds?|minutes?|hours?|days?|nights?|weeks?|months?|quarters?|years?|met(?:re|er)s?|kilomet\w+|miles?|feet|inch(?:es)?"
    r"|Sekunden?|Minuten?|Stunden?|Tage?n?|N\u00e4chten?|Wochen?|Monate?n?|Quartale?n?|Jahre?n?|Meter|Kilometer|Zentimeter"
)
SHORT_UNIT = r"s|min|h|hrs?|mm|cm|m|km|ft"
DATE_WORD = (
    r"\b(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day|\b(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
    r"|\b(?:M\u00e4r|Mai|Okt|Dez)"
    r"|(?:montag|dienstag|mittwoch|donnerstag|freitag|samstag|sonntag)"
)
CLOCK_OR_DATE = (
    r"\b(?:19|20)\d\d\b(?!:)|\b\d\d?[:.]\d\d\b|\b\d\d?\. ?(?:\d\d?\.|[A-Z])"
    r"|\b\d\d? ?(?:am|pm|a\.m|p\.m|o.clock|Uhr|st|nd|rd|th)\b"
    r"|\b\w+ ?(?:minute|hour|day|week|month|quarter|year)s?\b"
    r"|\b\w+ (?:Minute|Stunde|Tag|Woche|Monat|Quartal|Jahr)e?n?\b"
)
CALENDAR_WORD = (
    rf"{DATE_WORD}|\b(?:after|before|once|as soon as|immediately|at once|daily|weekly|monthly|noon|midnight|morning"
    r"|evening|spring|summer|autumn|winter|nach|vor|sobald|sofort|unverz\u00fcglich|umgehend|t\u00e4glich|w\u00f6chentlich|monatlich"
    r"|fr\u00fchjahr|fr\u00fchling|sommer|herbst|mittag|morgens|abends)\b"
)
FUNCTION_WORD_WITH_CAPITAL = (  # at the start of a sentence
    r"The|This|That|These|There|Then|They|Your|Our|Its|His|Her|You|She|All|Any|Not|And|But|For|From|With|When|Where|What"
    r"|How|Who|Why|Which|Yes|Der|Die|Das|Dies\w*|Den|Dem|Ein\w?|Sie|Ihre?|Wir|Und|Aber|F\u00fcr|Mit|Von|Wann|Was|Wie|Wer|Nein"
)
CURRENCY = (
    r"[\u20ac\u00a3$\u00a5]|\b(?:euros?|pounds?|pence|dollars?|cents?|EUR|GBP|USD|CHF|Franken)\b|\d ?p\b"
    r"|%|\bper ?cent\b|\bProzent\b"
    r"|\brents?\b|\b(?:Monats)?mieten?\b|\b(?:free|nothing|nil|included|kostenlos|kostenfrei|frei|nichts)\b"
)


@dataclass(frozen=True, slots=True)
class AnswerType:
    """What an answer contains, in a sentence and in a table, where a currency may be nowhere."""

    text: re.Pattern[str]
    cell: re.Pattern[str]
    reads_header: bool = False  # of a cell, for its unit

    def is_in(self, text: str) -> bool:
        """Return whether a sentence, or a table row or cell such as '| Width: 5 cm |', may be the answer or hold it."""
        row = parse_row(text)
        if not row:
            return bool(self.text.search(text))
        return bool(self.cell.search(text if self.reads_header else " ".join(value for _, value in row)))


def _any_of(pattern: str) -> AnswerType:
    compiled = re.compile(pattern, re.I)
    return AnswerType(compiled, compiled)


WITH_UNIT = (
    rf"\w[ \u00a0-]?(?:{UNIT})\b|\d[ \u00a0-]?(?:{SHORT_UNIT})\b"
    r"|\b(?:until|permanent|indefinite|unlimited|immediate|at once)"
    r"|\b(?:bis|unbefristet|sofort|umgehend|unverz\u00fcglich)\b"
)
NAME_OR_ROLE = re.compile(  # a word with a capital that is no function word, or who does something
    rf"\b(?!(?:{FUNCTION_WORD_WITH_CAPITAL})\b)[A-Z\u00c0-\u00de][^\W\d_]{{2}}"
    r"|\b(?:[a-z]{2,30}(?:ers?|ors?|ants?|ists?|ees?|ians?|m[ae]n|wom[ae]n)|parents?|people|persons?|staff|students?"
    r"|residents?|agents?|presidents?|each|both|every(?:one|body)|any(?:one|body)|no(?:body| one)|those|children"
    r"|board|council|police|company|alle|jede[rn]?|niemand)\b"
)
NUMBER = re.compile(rf"\d|\b(?:{NUMBER_WORD})\b", re.I)
PERCENT = re.compile(r"%|\bper ?cent\b|\bpercentage\b|\bProzent", re.I)
ANSWERS = {  # by what asks for them; the first that matches the question decides
    EMAIL: _any_of(r"\w@\w"),
    PHONE: _any_of(r"\d[\d /-]{2,}"),
    RATE: AnswerType(PERCENT, PERCENT, reads_header=True),
    DAY: _any_of(rf"{DATE_WORD}|\d\d?\.\d|\d{{4}}"),
    LENGTH: AnswerType(
        re.compile(WITH_UNIT, re.I),
        re.compile(rf"{WITH_UNIT}|[|(,] ?(?:{UNIT}|{SHORT_UNIT})\b", re.I),
        reads_header=True,
    ),
    REFERENCE: _any_of(r"\d"),
    MONEY: AnswerType(re.compile(CURRENCY, re.I), NUMBER),
    QUANTITY: AnswerType(NUMBER, NUMBER),
    TIME: _any_of(rf"{CLOCK_OR_DATE}|{CALENDAR_WORD}"),
    PERSON: AnswerType(NAME_OR_ROLE, NAME_OR_ROLE),
}
BOUNDS = {  # the words before an answer
    _any(r"\b(?:until|till|bis) (?:when|wann)\b"): re.compile(r"\b(?:until|till|to|by|bis)(?: zum)? $", re.I),
    _any(r"\b(?:since|from|ab|seit) (?:when|wann)\b|^when .* (?:begin|start)\b"): re.compile(
        r"\b(?:since|from|on|ab|seit)(?: dem)? $", re.I
    ),
}


def expected_content(question: str) -> AnswerType | None:
    """Return what an answer must contain; None if the question does not tell."""
    return next((answer for pattern, answer in ANSWERS.items() if pattern.search(question.strip())), None)


def words_before(question: str) -> re.Pattern[str] | None:
    """Return the words before an answer to 'until when' or 'since when'; None for other questions."""
    return next((before for pattern, before in BOUNDS.items() if pattern.search(question.strip())), None)


def asks_for_reason(question: str) -> bool:
    """Return whether the answer is a reason: a clause, not a name or a number."""
    return bool(REASON.search(question))


def asks_for_more(question: str) -> bool:
    """Return whether a name or a number alone is no answer: it asks for a reason, or for a second thing."""
    return asks_for_reason(question) or bool(SECOND_REQUEST.search(question))
