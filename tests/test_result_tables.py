"""The tables in our Markdown pages are what the measured rows say."""

import json

import pytest

from scripts import fill_tables as tables

ROWS = [
    {"task": "niah_multivalue", "method": "full", "ratio": 1.0, "kl": 0.0, "n": 8},
    {
        "task": "niah_multivalue",
        "method": "epic:tokens=9",
        "ratio": 0.2,
        "kl": 0.2,
        "kl_low": -0.1,
        "kl_high": 0.3,
        "n": 8,
    },
    {"task": "common_words", "method": "full", "ratio": 1.0, "kl": 0.0, "n": 6},
    {"task": "common_words", "method": "epic:tokens=9", "ratio": 0.2, "kl": 0.4, "n": 6},
]


@pytest.fixture
def rows(tmp_path, monkeypatch):
    (tmp_path / "measured").mkdir()
    (tmp_path / "measured" / "some.json").write_text(json.dumps(ROWS))
    monkeypatch.setattr(tables, "HERE", tmp_path)


def table(said):
    first, *lines, last = tables.filled(f"<!-- {said} -->\nold\n<!-- end -->").splitlines()
    assert (first, last) == (f"<!-- {said} -->", "<!-- end -->")
    return lines


@pytest.mark.parametrize("page", tables.PAGES, ids=lambda page: page.name)
def test_every_table_matches_the_measured_rows(page):
    text = page.read_text(encoding="utf-8")
    assert tables.filled(text) == text, "run python -m scripts.fill_tables"


def test_a_pivot_has_a_line_for_each_method_and_one_for_the_sample_sizes(rows):
    assert table("pivot kl by task: some.json") == [
        "| method | multivalue | common words | mean |",
        "|---|---:|---:|---:|",
        "| full | 0.000 | 0.000 | 0.000 |",
        "| epic, same budget | 0.200 | 0.400 | 0.300 |",
        "| n | 8 | 6 | 6 |",
    ]
    assert table("pivot kl: A=some.json?task=common_words, B=some.json")[3] == "| epic, same budget | 0.400 | 0.300 |"
    both = "A=some.json?task=niah_multivalue, some.json?task=common_words"
    assert table(f"pivot kl: {both}")[3] == "| epic, same budget | 0.300 |"
    assert table("pivot kl: A=some.json, B=some.json?method=full!n")[2:4] == [
        "| full | 0.000 | 7.00 |",
        "| epic, same budget | 0.300 |  |",
    ]
    assert table("pivot kl by ratio: some.json")[0] == "| method | 20% | 100% |"


def test_a_table_has_a_line_for_each_row_with_its_interval(rows):
    assert table("table method kl n: some.json?task=niah_multivalue&method=epic:tokens=9")[2:] == [
        "| epic:tokens=9 | 0.200 (-0.100 to 0.300) | 8 |"
    ]


@pytest.mark.parametrize("said", ["table kl: some.json?method=none", "pivot quality by task: some.json"])
def test_what_the_rows_do_not_have_is_an_error(rows, said):
    with pytest.raises(LookupError):
        table(said)
