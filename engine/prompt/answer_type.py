"""What the answer to a question must contain, by its question word: a number, a time or a name (answer typing).

Source: Li and Roth, Learning Question Classifiers, 2002, of which these are the coarse classes that need no model.
"""

import re


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.I)


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
REASON = _any(r"\b(?:why|warum|wieso|weshalb|how come)\b")

NUMBER_WORD = (
    r"one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|dozen|half|once|twice|daily|weekly|monthly|yearly"
    r"|annual(?:ly)?|every|each|free|nothing|none|nil|no|unlimited"
    r"|eine?[mnrs]?|zwei|drei|vier|f\u00fcnf|sechs|sieben|acht|neun|zehn|elf|zw\u00f6lf|halb\w*|t\u00e4glich"
    r"|w\u00f6chentlich|monatlich|j\u00e4hrlich|jede[mnrs]?|kostenlos|kostenfrei|frei|nichts|keine?[nr]?"
)
DATE_WORD = (
    r"\b(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day|\b(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
    r"|\b(?:M\u00e4r|Mai|Okt|Dez)"
    r"|(?:montag|dienstag|mittwoch|donnerstag|freitag|samstag|sonntag)"
)
CLOCK_OR_DATE = (
    r"\b(?:19|20)\d\d\b|\b\d\d?[:.]\d\d\b|\b\d\d?\. ?(?:\d|[A-Z])"
    r"|\b\d\d? ?(?:am|pm|a\.m|p\.m|o.clock|Uhr|st|nd|rd|th)\b"
    r"|\b\w+ ?(?:minute|hour|day|week|month|quarter|year)s?\b"
    r"|\b\w+ (?:Minute|Stunde|Tag|Woche|Monat|Quartal|Jahr)e?n?\b"
)
CALENDAR_WORD = (
    rf"{DATE_WORD}|\b(?:after|before|once|as soon as|immediately|at once|daily|weekly|monthly|noon|midnight|morning"
    r"|evening|spring|summer|autumn|winter|nach|vor|sobald|sofort|unverz\u00fcglich|umgehend|t\u00e4glich|w\u00f6chentlich|monatlich"
    r"|fr\u00fchjahr|fr\u00fchling|sommer|herbst|mittag|morgens|abends)\b"
)
ANSWERS = {  # what an answer of each type contains; the first that matches the question decides
    EMAIL: re.compile(r"\w@\w"),
    PHONE: re.compile(r"\d[\d /-]{2,}"),
    DAY: re.compile(rf"{DATE_WORD}|\d\d?\.\d|\d{{4}}", re.I),
    QUANTITY: re.compile(rf"\d|\b(?:{NUMBER_WORD})\b", re.I),
    TIME: re.compile(rf"{CLOCK_OR_DATE}|{CALENDAR_WORD}", re.I),
    PERSON: re.compile(r"[^\W\d_]{3}"),
}
BOUNDS = {  # the words before an answer
    _any(r"\b(?:until|till|bis) (?:when|wann)\b"): re.compile(r"\b(?:until|till|to|by|bis)(?: zum)? $", re.I),
    _any(r"\b(?:since|from|ab|seit) (?:when|wann)\b|^when .* (?:begin|start)\b"): re.compile(
        r"\b(?:since|from|on|ab|seit)(?: dem)? $", re.I
    ),
}


def expected_content(question: str) -> re.Pattern[str] | None:
    """Return what an answer must contain; None if the question does not tell."""
    return next((answer for pattern, answer in ANSWERS.items() if pattern.search(question.strip())), None)


def words_before(question: str) -> re.Pattern[str] | None:
    """Return the words before an answer to 'until when' or 'since when'; None for other questions."""
    return next((before for pattern, before in BOUNDS.items() if pattern.search(question.strip())), None)


def asks_for_reason(question: str) -> bool:
    """Return whether the answer is a reason: a clause, not a name or a number."""
    return bool(REASON.search(question))
