"""Files of the fuzz measure: reproducible, different, and hostile in what they are made for; and what is counted."""

import io
import random
import time
import zipfile
from argparse import Namespace
from xml.etree import ElementTree

import pytest

from bench.hostile import KINDS, epub
from bench.hostile.archives import MAIN, extreme_cells, parts
from bench.measures import fuzz
from bench.measures.fuzz import damage, is_sentence, make_file
from store.errors import UnreadableDocument
from store.ingest import parse


def archive():
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as target:
        target.writestr("a.xml", "<a>" + "text " * 50 + "</a>")
    return sink.getvalue()


def test_damage_follows_from_the_seed_and_changes_nearly_every_file():
    data = bytes(range(256)) * 8
    first, second = ([damage(data, random.Random(seed)) for seed in range(50)] for _ in range(2))
    assert first == second and len(set(first)) > 40
    assert sum(each == data for each in first) < 5


def test_a_member_is_damaged_within_an_archive_that_stays_readable():
    intact = archive()
    readable = 0
    for seed in range(40):
        damaged = damage(intact, random.Random(seed))
        try:
            with zipfile.ZipFile(io.BytesIO(damaged)) as found:
                readable += found.testzip() is None and found.read("a.xml") != zipfile.ZipFile(io.BytesIO(intact)).read(
                    "a.xml"
                )
        except zipfile.BadZipFile:
            pass
    assert readable >= 10


def test_a_file_follows_from_seed_and_number_and_every_second_one_is_hostile():
    originals = [("a.txt", b"The ferry sails. " * 50)]
    files = [make_file(originals, 7, number) for number in range(30)]
    assert [make_file(originals, 7, number) for number in range(29, -1, -1)] == files[::-1]
    assert files != [make_file(originals, 8, number) for number in range(30)]
    assert {name for name, _ in files[::2]} == {"a.txt"} and "a.txt" not in {name for name, _ in files[1::2]}


@pytest.mark.parametrize("make", KINDS, ids=lambda make: make.__name__)
def test_every_kind_of_hostile_file_follows_from_the_generator_and_fits_the_limit_on_files(make, monkeypatch):
    first = [make(random.Random(seed)) for seed in range(4)]
    monkeypatch.setattr(time, "time", lambda: 2e9)  # another day: no date is in the files
    assert [make(random.Random(seed)) for seed in range(4)] == first and len({data for _, data in first}) > 1
    assert all(len(data) < 50 * 2**20 for _, data in first)


@pytest.mark.parametrize("kind", MAIN)
def test_hostile_archives_are_variants_of_readable_ones(kind):
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as target:
        for name, content in parts(kind).items():
            target.writestr(name, content)
    assert "The ferry sails." in parse(sink.getvalue(), f"a.{kind}").text
    assert "The ferry sails." in parse(epub(), "a.epub").text


def test_merged_cells_are_well_formed_so_that_a_parser_reaches_them():
    sheets = []
    for seed in range(20):
        name, data = extreme_cells(random.Random(seed))
        if name.endswith(".xlsx"):
            sheets.append(zipfile.ZipFile(io.BytesIO(data)).read("xl/worksheets/sheet1.xml"))
    merged = [sheet for sheet in sheets if b"<mergeCell " in sheet]
    assert len(merged) > 1
    for sheet in merged:
        assert ElementTree.fromstring(sheet)[-1].tag.endswith("mergeCells")


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("a.pdf is a damaged PDF (ValueError). Pick another file.", True),
        ("The text of a.pdf has over 20 characters, which is the limit.", True),
        ("", False),
        ("a.pdf is a damaged PDF", False),
        ("is damaged.", False),
        ("a.pdf has <function f at 0x7f12ab>.", False),
        ("Object at 0x7f12ab is wrong.", False),
        ("Traceback (most recent call last).", False),
        ("Two\nlines.", False),
    ],
)
def test_a_refusal_is_a_sentence_without_traces_and_objects(message, expected):
    assert is_sentence(message, "a.pdf") is expected


def arguments(files, first=0):
    return Namespace(folder=fuzz.HERE, seed=1, first=first, files=files, jobs=2)


@pytest.mark.parametrize(
    ("error", "column"),
    [
        (ValueError("x"), "app_crashes"),
        (UnreadableDocument("Object at 0x7f12ab."), "not_sentences"),
        (UnreadableDocument("It cannot be read: its reader failed (KeyError)."), "reader_failures"),
        (UnreadableDocument("It is damaged."), "refused"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_crashes_and_refusals_are_counted(monkeypatch, error, column):
    def fail(data, name):
        raise error
        yield

    monkeypatch.setattr(fuzz, "parse_isolated", fail)
    (row,) = fuzz.run(arguments(3))
    assert row[column] == 3
    assert row["accepted"] == 0 and row["refused"] == (0 if column == "app_crashes" else 3)


def test_a_few_files_are_read_or_refused_with_a_sentence():
    (row,) = fuzz.run(arguments(12))
    assert row["accepted"] + row["refused"] == row["files"] == 12
    assert row["app_crashes"] == row["not_sentences"] == 0
    assert row["rss_growth_mb"] <= 300


@pytest.mark.parametrize("seed", range(12))
def test_an_empty_file_stays_empty(seed):
    assert fuzz.damage(b"", random.Random(seed)) == b""
