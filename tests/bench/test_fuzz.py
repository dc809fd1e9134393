"""Damaged files for the fuzz measure: reproducible, different, and in zip archives also inside a member."""

import io
import random
import zipfile

from bench.measures.fuzz import damage


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
