"""Invented names of people, companies, places and products, composed of syllables and word lists."""

import re
import unicodedata
from collections.abc import Callable
from random import Random

from training.data.documents.vocabulary import Vocabulary

ONSETS = "b br c d dr f fl g gr h j k kr l m n p pr qu r s st t tr v w z"
VOWELS = "a a a e e e i i o o u ai ea io"
CODAS = "l n r s x m nd th ck v"
SERIES = (
    "100",
    "200",
    "250",
    "300",
    "400",
    "500",
    "750",
    "900",
    "Pro",
    "Plus",
    "Mini",
    "Max",
    "Eco",
    "One",
    "Go",
    "XL",
)
UMLAUTS = {ord("ä"): "ae", ord("ö"): "oe", ord("ü"): "ue", ord("ß"): "ss"}
LETTERS = "ABCDEFGHKLMNPRSTVWX"


def stem(rng: Random, syllables: int = 2) -> str:
    """Return a pronounceable word with a capital."""
    onsets, vowels, codas = ONSETS.split(), VOWELS.split(), CODAS.split()
    parts = [rng.choice(onsets) + rng.choice(vowels) for _ in range(syllables)]
    return ("".join(parts) + (rng.choice(codas) if rng.random() < 0.7 else "")).capitalize()


def code(pattern: str, rng: Random) -> str:
    """Replace each 9 by a digit and each A by a letter."""
    return re.sub("[9A_]", lambda match: rng.choice({"9": "0123456789", "A": LETTERS}.get(match[0], " ")), pattern)


def slug(text: str) -> str:
    """Return a text as it appears in a file name."""
    text = text.lower().translate(UMLAUTS)
    text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9]+", "-", text).strip("-")


class Names:
    """Draws names in the language of a vocabulary."""

    def __init__(self, words: Vocabulary) -> None:
        self._list = words.lists
        self.draw: dict[str, Callable[[Random], str]] = {
            "person": self._person,
            "surname": self._surname,
            "company": self._company,
            "place": self._place,
            "product": self._product,
            "street": self._street,
            "phone": self._phone,
            "email": self._email,
            "team": lambda rng: f"{rng.choice(self._list['club'])} {self._place(rng)}",
            "substance": lambda rng: stem(rng).lower() + rng.choice(("in", "ol", "an", "id", "ax", "ium")),
            "room": lambda rng: code(rng.choice(("9.99", "A99", "A 9.99", "B 99", "9A")), rng),
        }

    def _surname(self, rng: Random) -> str:
        return stem(rng) if rng.random() < 0.25 else rng.choice(self._list["surname"])

    def _person(self, rng: Random) -> str:
        name = f"{rng.choice(self._list['first_name'])} {self._surname(rng)}"
        return f"Dr. {name}" if rng.random() < 0.1 else name

    def _company(self, rng: Random) -> str:
        roll = rng.random()
        if roll < 0.4:
            name = f"{stem(rng)} {rng.choice(self._list['business'])}"
        elif roll < 0.6:
            name = f"{self._surname(rng)} & {self._surname(rng)}"
        else:
            name = stem(rng, rng.choice((2, 3)))
        return f"{name} {rng.choice(self._list['legal_form'])}" if rng.random() < 0.6 else name

    def _place(self, rng: Random) -> str:
        name = rng.choice(self._list["place_start"]) + rng.choice(self._list["place_end"])
        return f"{rng.choice(self._list['place_prefix'])} {name}" if rng.random() < 0.12 else name

    def _product(self, rng: Random) -> str:
        roll = rng.random()
        if roll < 0.3:
            return code(rng.choice(("AA-999", "A99", "AA 9900", "AAA-99", "A-9000", "AA9", "A999-A")), rng)
        name = stem(rng) if roll < 0.85 else rng.choice(self._list["product_word"]).capitalize()
        return f"{name} {rng.choice(SERIES) if rng.random() < 0.7 else code(rng.choice(('A9', '99', 'A99')), rng)}"

    def _street(self, rng: Random) -> str:
        number = rng.randint(1, 180)
        street = rng.choice(self._list["street_start"]) + rng.choice(self._list["street_end"]).replace("_", " ")
        return f"{street} {number}" if self._list["language"] == ("de",) else f"{number} {street}"

    def _phone(self, rng: Random) -> str:
        patterns = ("0999 999999", "+49 999 99999-99", "(999) 999-9999", "09999 9999", "+44 9999 999999", "999-99-99")
        return code(rng.choice(patterns), rng)

    def _email(self, rng: Random) -> str:
        user = slug(rng.choice((self._surname(rng), rng.choice(self._list["mailbox"]))))
        return f"{user}@{slug(stem(rng))}.{rng.choice(('com', 'org', 'net', 'eu', 'example'))}"
