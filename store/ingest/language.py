"""A warning for texts that the search model hardly knows.

The embedder we ship (all-MiniLM-L6-v2) was trained on English. Told without a model: a text's script, by the share of
its letters that are not Latin; else its language, by the small words that no prose can do without.
"""

import re
import unicodedata
from collections import Counter

SAMPLES = 20  # places looked at, evenly spread: a book need not be read whole
SAMPLE = 2000  # characters at each
FEWEST = 40  # letters below which nothing is said
MOST = 0.3  # share of other letters up to which nothing is said: names and quotations
LATIN_ENDS = 0x250
LATIN = ((0x1E00, 0x1F00), (0x2C60, 0x2C80), (0xA720, 0xA800), (0xFB00, 0xFB07), (0xFF21, 0xFF5B))
SCRIPTS = {"CJK": "Chinese", "HIRAGANA": "Japanese", "KATAKANA": "Japanese", "HANGUL": "Korean"}

ENGLISH = "English"
SMALL_WORDS = {  # the most frequent of each language; a word of several counts for each of them
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
_LANGUAGES: dict[str, set[str]] = {name: set(words.split()) for name, words in SMALL_WORDS.items()}
FEWEST_WORDS = 30  # below which nothing is said
DIFFERENT = 6  # small words that prose has at least: a loop has many an `i`
OFTEN = 0.12  # share of all words that a language's small words have at least, in prose
OVER = 1.5  # times as many as English ones


def language_warning(text: str) -> str:
    """Return a sentence if most search questions will find this text by its words only; empty if not."""
    seen = _samples(text)
    letters = Counter(letter for part in seen for letter in part if letter.isalpha())
    total = letters.total()
    others = Counter({letter: count for letter, count in letters.items() if not _is_latin(letter)})
    share = others.total() / total if total else 0.0
    if total < FEWEST:
        return ""
    if share > MOST:
        said = f"{share * 100:.0f} % of the letters are {_script(others)}"
    elif (language := _language(seen)) != ENGLISH:
        said = f"The text seems to be {language}"
    else:
        return ""
    return f"{said}, and the search model knows English best: ask with words that stand in the text."


def _samples(text: str) -> list[str]:
    if len(text) <= SAMPLES * SAMPLE:
        return [text]
    return [text[start : start + SAMPLE] for start in range(0, len(text), len(text) // SAMPLES)]


def _language(seen: list[str]) -> str:
    """Return the language whose small words stand there clearly more often than the English ones; else English."""
    words = Counter(word for part in seen for word in re.findall(r"[^\W\d_]+", part))  # not El Paso: that is a name
    found = {name: sum(words[word] for word in small) for name, small in _LANGUAGES.items()}
    best = max(found, key=lambda name: found[name])
    prose = words.total() >= FEWEST_WORDS and sum(word in words for word in _LANGUAGES[best]) >= DIFFERENT
    clear = found[best] > OVER * found[ENGLISH] and found[best] >= OFTEN * words.total()
    return best if prose and clear else ENGLISH


def _is_latin(letter: str) -> bool:
    code = ord(letter)
    return code < LATIN_ENDS or any(start <= code < end for start, end in LATIN)


def _script(letters: Counter[str]) -> str:
    """Return the script of most letters: 'Cyrillic', or 'Chinese'; Japanese mixes Han letters with its own."""
    scripts: Counter[str] = Counter()
    for letter, count in letters.items():
        scripts[unicodedata.name(letter, "unknown").split()[0].split("-")[0]] += count
    if scripts["HIRAGANA"] + scripts["KATAKANA"] > 0.1 * scripts.total():
        return "Japanese"
    name = scripts.most_common(1)[0][0]
    return SCRIPTS.get(name, name.capitalize())
