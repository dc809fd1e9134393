"""A warning for texts that the search model hardly knows.

The embedder we ship (all-MiniLM-L6-v2) was trained on English. What can be told of a text without a model is its
script: the share of its letters that are not Latin. A French or German text passes as Latin, and says so nowhere.
"""

import unicodedata
from collections import Counter

SAMPLES = 20  # places looked at, evenly spread: a book need not be read whole
SAMPLE = 2000  # characters at each
FEWEST = 40  # letters below which nothing is said
MOST = 0.3  # share of other letters up to which nothing is said: names and quotations
LATIN_ENDS = 0x250
LATIN = ((0x1E00, 0x1F00), (0x2C60, 0x2C80), (0xA720, 0xA800), (0xFB00, 0xFB07), (0xFF21, 0xFF5B))
SCRIPTS = {"CJK": "Chinese", "HIRAGANA": "Japanese", "KATAKANA": "Japanese", "HANGUL": "Korean"}


def language_warning(text: str) -> str:
    """Return a sentence if most search questions will find this text by its words only; empty if not."""
    step = max(1, len(text) // SAMPLES)
    places = range(0, len(text), step) if len(text) > SAMPLES * SAMPLE else (0,)
    width = SAMPLE if len(text) > SAMPLES * SAMPLE else len(text)
    letters = Counter(letter for start in places for letter in text[start : start + width] if letter.isalpha())
    total = letters.total()
    others = Counter({letter: count for letter, count in letters.items() if not _is_latin(letter)})
    share = others.total() / total if total else 0.0
    if total < FEWEST or share <= MOST:
        return ""
    return (
        f"{share * 100:.0f} % of the letters are {_script(others)}, and the search model knows English best: "
        "ask with words that stand in the text."
    )


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
