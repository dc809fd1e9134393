"""Text that is neither marked nor UTF-8 is read in the encoding that it was written in; binary data is not read."""

import array
import json
import random
from pathlib import Path

import pytest

from store.errors import UnreadableDocument
from store.ingest import parse
from store.ingest.document import finish
from store.ingest.isolated import parse_isolated
from tests.support.files import PICTURE, zipped

TEXTS = json.loads((Path(__file__).parents[2] / "support/data/texts_by_language.json").read_text(encoding="utf-8"))
ENCODINGS = {
    "English": ["cp1252"],
    "German": ["cp1252", "iso8859-1", "iso8859-15"],
    "French": ["cp1252", "iso8859-1", "iso8859-15"],
    "Czech": ["cp1250", "iso8859-2"],
    "Polish": ["cp1250", "iso8859-2"],
    "Russian": ["cp1251", "koi8-r"],
    "Japanese": ["shift_jis", "euc_jp"],
    "Simplified Chinese": ["gbk", "gb18030"],
    "Traditional Chinese": ["big5"],
    "Korean": ["euc_kr"],
}
CASES = [
    (language, encoding, length)
    for language, encodings in ENCODINGS.items()
    for encoding in [*encodings, "utf-16-le", "utf-16-be"]
    for length in (100, 2000)
]
HIGH = [*range(32, 127), *range(128, 256)]  # no control characters


@pytest.mark.parametrize(("language", "encoding", "length"), CASES, ids=str)
def test_a_text_is_read_as_it_was_written(language, encoding, length):
    text = (TEXTS[language] * 20)[:length].encode(encoding, "ignore").decode(encoding)
    parsed = parse(text.encode(encoding), "a.txt")
    assert parsed.text == text
    assert parsed.warning.startswith("Its encoding was guessed as ")


@pytest.mark.parametrize(
    ("language", "encoding", "label"),
    [
        ("Japanese", "shift_jis", "Shift-JIS"),
        ("Korean", "euc_kr", "EUC-KR"),
        ("Russian", "koi8-r", "KOI8-R"),
        ("Polish", "iso8859-2", "ISO-8859-2"),
        ("English", "cp1252", "Windows-1252"),
        ("Czech", "utf-16-be", "UTF-16"),
    ],
)
@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.csv", "a.html"])
def test_every_format_is_read_and_says_that_its_encoding_was_guessed(language, encoding, label, name):
    line = TEXTS[language].partition("\n")[0]
    content = {"a.html": f"<html><p>{line}", "a.csv": f'A,B\n"{line}",5\n'}.get(name, line)
    parsed = parse(content.encode(encoding), name)
    assert line in parsed.text
    assert parsed.warning == f"Its encoding was guessed as {label}; if characters look wrong, save it as UTF-8."


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "ascii"])
def test_nothing_is_guessed_with_a_mark_or_in_utf8(encoding):
    text = "plain" if encoding == "ascii" else TEXTS["Japanese"]
    for name in ("a.txt", "a.md", "a.csv", "a.html"):
        assert not parse(text.encode(encoding), name).warning


@pytest.mark.parametrize("text", ["Müller", "naïve", "25 °C", "Perché no?", "50 £", "BMW für alle"])
def test_a_few_accents_are_western(text):
    assert parse(text.encode("cp1252"), "a.txt").text == text


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("text", ["boat", "7", "渡し船は\n毎日運航しています", "Паром"])
def test_a_few_characters_of_utf16_are_read(text, encoding):
    assert parse(text.encode(encoding), "a.txt").text == text


@pytest.mark.parametrize(("text", "wrong"), [("déjà vu", "euc_jp"), ("“Yes”", "iso8859-1")])
def test_a_guess_that_does_not_fit_the_whole_file_is_not_used(monkeypatch, text, wrong):
    monkeypatch.setattr("store.ingest.text.guess_encodings", lambda data: [(wrong, "wrong"), ("cp1252", "right")])
    parsed = parse(text.encode("cp1252"), "a.txt")
    assert parsed.text == text and "guessed as right" in parsed.warning


@pytest.mark.parametrize("encoding", ["shift_jis", "euc_jp"])
@pytest.mark.parametrize("start", [b"x" * 10**6, b"boat 12\n" * 10**5], ids=["line", "lines"])
def test_a_long_start_in_ascii_does_not_decide(encoding, start):
    assert parse(start + TEXTS["Japanese"].encode(encoding), "a.txt").text.endswith(TEXTS["Japanese"])


@pytest.mark.parametrize(
    ("language", "encoding"), [("Japanese", "shift_jis"), ("Simplified Chinese", "gbk"), ("Korean", "euc_kr")]
)
def test_one_truncated_character_does_not_change_the_encoding(language, encoding):
    text = TEXTS[language] * 20
    assert parse(text.encode(encoding) + text.encode(encoding)[:1], "a.txt").text == text + "\ufffd"


@pytest.mark.parametrize(
    "data",
    [
        random.Random(0).randbytes(5000),
        bytes(random.Random(0).choices(HIGH, k=5000)),
        bytes(random.Random(0).choices(HIGH, k=200)),
        b"name\0value\0other\0values" * 20,  # UTF-16 for rare Chinese, with zero bytes between the texts
        "Größe\0Höhe\0Weiß\0".encode() * 20,
        array.array("h", [round(9000 * (index % 40 - 20) / 20) for index in range(3000)]).tobytes(),  # a sound
        array.array("f", [index / 7 for index in range(2000)]).tobytes(),
        bytes(range(256)) * 20,
        zipped({"a.txt": "x" * 500}),
        PICTURE,
        b"MZ\x90\0\x03\0\0\0" + random.Random(1).randbytes(500),
    ],
    ids=range(11),
)
@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.csv", "a.html"])
def test_binary_data_is_not_read(data, name):
    with pytest.raises(UnreadableDocument):
        parse(data, name)


def test_an_encoding_is_guessed_within_the_limits_of_a_process():
    data = TEXTS["Japanese"].encode("shift_jis")
    assert finish(parse_isolated(data, "a.txt")) == parse(data, "a.txt")
