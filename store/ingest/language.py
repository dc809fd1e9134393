"""The language of a text, and a warning if the embedding model hardly knows it; that was trained on English.

The ratio of non-Latin letters decides, and for Latin script how frequent function words are.
"""

import re
import unicodedata
from collections import Counter

MAX_SAMPLES = 20  # evenly spread over the text
SAMPLE_CHARS = 2000
MIN_LETTERS = 40  # below that, the language is not clear
MAX_FOREIGN_RATIO = 0.3  # of non-Latin letters; names and quotations stay below
SCRIPTS = {"CJK": "Chinese", "HIRAGANA": "Japanese", "KATAKANA": "Japanese", "HANGUL": "Korean"}

ENGLISH = "English"
FUNCTION_WORDS = {  # the most frequent ones of each language; shared words count for each
    ENGLISH: "the of and to a in is that for it was with as on be by this are from at or an not which have you",
    "German": "der die und das den von zu ist mit des nicht auf ein eine dem sich im f\u00fcr in es als auch an werden",
    "French": "le la les de des et est une un dans pour que qui du sur pas au en il par ne se sont avec",
    "Spanish": "el la los las de que y en un una por con para del es se no al lo como su m\u00e1s",
    "Italian": "il la di che e un una per con non del della sono le i in \u00e8 si da al dei gli nel",
    "Portuguese": "o os a as que e do da em um uma para com n\u00e3o no na dos de se por mais \u00e9",
    "Dutch": "de het een en van is dat op te in zijn met voor niet aan er om ook als bij door",
    "Polish": "w i na z si\u0119 nie do \u017ce jest to o jak po przez od dla co za oraz",
    "Swedish": "och att det som en p\u00e5 \u00e4r av f\u00f6r med den till inte i har de ett om var",
    "Danish or Norwegian": "og det at er p\u00e5 til en af av som ikke for den i de med har et om var",
    "Turkish": "ve bir bu i\u00e7in ile da de olarak daha \u00e7ok gibi olan ne her kadar",
    "Czech": "a je se na v \u017ee to s z do i o ve jako za by pro k jsou",
}
_REMEDY = "Use words from the document in your questions, or choose another search model in the settings."
LANGUAGES: dict[str, set[str]] = {name: set(words.split()) for name, words in FUNCTION_WORDS.items()}
MIN_WORDS = 30  # likewise
MIN_DISTINCT_WORDS = 6  # function words; code has loops with many an `i`
MIN_FUNCTION_WORD_RATIO = 0.12  # of all words, in prose
MIN_RATIO_TO_ENGLISH = 1.5  # function words per English function word


def language_warning(text: str) -> str:
    """Return a sentence if most questions will match this text by its words only, else ''."""
    language = language_of(text)
    return "" if language in ("", ENGLISH) else f"{language} text: search works best in English. {_REMEDY}"


def language_of(text: str) -> str:
    """Return the language of a text, or its script if that has many; '' if it is not clear.

    For Latin script it is the language whose function words are frequent, and clearly more so than the English ones if
    it is another one. Words are case-sensitive, so that names such as El Paso do not count.
    """
    sample = _take_sample(text)
    scripts = Counter[str]()
    for letter, count in Counter(filter(str.isalpha, sample)).items():
        scripts[_script(letter)] += count
    num_letters = scripts.total()
    if num_letters < MIN_LETTERS:
        return ""
    del scripts["LATIN"]
    if scripts.total() > MAX_FOREIGN_RATIO * num_letters:
        return _main_script(scripts)
    words = Counter(re.findall(r"[^\W\d_]+", sample))
    counts = {name: sum(words[word] for word in function_words) for name, function_words in LANGUAGES.items()}

    def is_clear(name: str) -> bool:
        num_distinct = sum(word in words for word in LANGUAGES[name])
        is_prose = words.total() >= MIN_WORDS and num_distinct >= MIN_DISTINCT_WORDS
        return is_prose and counts[name] >= MIN_FUNCTION_WORD_RATIO * words.total()

    best = max(counts, key=lambda name: counts[name])
    if counts[best] > MIN_RATIO_TO_ENGLISH * counts[ENGLISH] and is_clear(best):
        return best
    return ENGLISH if is_clear(ENGLISH) else ""


def _take_sample(text: str) -> str:
    if len(text) <= MAX_SAMPLES * SAMPLE_CHARS:
        return text
    return "\n".join(text[start : start + SAMPLE_CHARS] for start in range(0, len(text), len(text) // MAX_SAMPLES))


def _script(letter: str) -> str:
    name = unicodedata.name(letter, "unknown")
    return "LATIN" if "LATIN" in name else name.split()[0].split("-")[0]


def _main_script(scripts: Counter[str]) -> str:
    """Return the most frequent script, as 'Cyrillic' or 'Chinese'; Japanese mixes kana with Han letters."""
    if scripts["HIRAGANA"] + scripts["KATAKANA"] > 0.1 * scripts.total():
        return "Japanese"
    name = scripts.most_common(1)[0][0]
    return SCRIPTS.get(name, name.capitalize())
