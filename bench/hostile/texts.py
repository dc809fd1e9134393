"""Hostile text: wrong and broken encodings, characters that combine without end, control characters."""

import random

from bench.hostile.sizes import size

SAMPLES = (
    "The ferry sails on Fridays. ",
    "Die Fähre fährt über den Fluß. ",
    "Паром отправляется по пятницам. ",
    "渡轮星期五开航。",
    "フェリーは金曜日に出航します。",
    "המעבורת יוצאת בימי שישי. ",
    "العبارة تبحر يوم الجمعة. ",
    "\U0001f6a2\u200d\U0001f469\ufe0f ",
)
CODECS: tuple[str, ...] = (
    "utf-8",
    "utf-8-sig",
    "utf-16",
    "utf-16-le",
    "utf-16-be",
    "utf-32",
    "utf-7",
    "cp1252",
    "cp1251",
    "koi8-r",
)
CODECS += ("gb18030", "big5", "shift_jis", "euc-jp", "iso2022_jp", "euc-kr", "cp1255", "cp037", "cp437", "hz")
MARKS = (b"", b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff", b"\xff\xfe\0\0", b"\0\0\xfe\xff", b"+/v8")
BROKEN = (b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xff", b"\x80" * 9, b"\0", b"\x1b$B", b"\xd8\0", b"\x1a")
NAMES = ("Text.txt", "Text.md", "Text.csv", "Text.html", "Text", "Text.pdf", "Text.docx")


def encoded(generator: random.Random) -> tuple[str, bytes]:
    """Return text in one encoding behind another's byte order mark, with invalid sequences inside, or torn."""
    text = "".join(generator.choices(SAMPLES, k=generator.randint(1, 3))) * size(generator, 1, 20_000)
    data = bytearray(generator.choice(MARKS) + text.encode(generator.choice(CODECS), "ignore"))
    for _ in range(generator.choice([0, 1, 3, 100])):
        at = generator.randrange(len(data) + 1)
        data[at:at] = generator.choice(BROKEN)
    return generator.choice(NAMES), bytes(data[generator.randrange(2) : len(data) - generator.randrange(3) or None])


def marks(generator: random.Random) -> tuple[str, bytes]:
    """Return letters below up to 500,000 combining marks, bidi controls, or characters that nothing displays."""
    groups = ("\u0315\u0300\u0327", "\u202e\u202d", "\u200b\u200d", "\ufffe\uffff", "\U000e0041", "\ufdfa", "\u1160")
    letters = "".join(generator.choices(generator.choice(groups), k=size(generator, 10, 500_000)))
    return generator.choice(NAMES), f"a{letters} The ferry sails.".encode("utf-8", "surrogatepass")


def noise(generator: random.Random) -> tuple[str, bytes]:
    """Return random bytes, from all or from few, behind the first bytes of a format."""
    start = generator.choice(
        [b"", b"%PDF-1.7\n", b"PK\3\4", b"\x89PNG\r\n\x1a\n", b"II*\0", b"RIFF....WEBP", b"<html>"]
    )
    start += generator.choice([b"", b"\xff\xd8\xff\xe0", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", b"---\n"])
    alphabet = generator.choice(
        [bytes(range(256)), b"ab \n", b"\n", b" ", b"<>/", b"\0\1", bytes(range(128, 256)), b"[]<>"]
    )
    return generator.choice(NAMES), start + bytes(generator.choices(alphabet, k=size(generator, 1, 1_000_000)))
