"""Any file name becomes safe to show."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.names import MAX_LENGTH, clean_name, unique_name


@pytest.mark.parametrize(
    "name, clean",
    [
        ("report.pdf", "report.pdf"),
        ("/etc/../report.pdf", "report.pdf"),
        ("C:\\files\\report.pdf", "report.pdf"),
        ("a\nb\tc\x00.txt", "abc.txt"),
        ("invoice\u202efdp.exe", "invoicefdp.exe"),
        ("\u2066hidden\u2069.txt", "hidden.txt"),
        ("汉字 😀.md", "汉字 😀.md"),
        ("", "document"),
        ("..", "document"),
        ("folder/", "document"),
        ("\ud800", "document"),
    ],
)
def test_a_name_is_the_last_part_without_invisible_characters(name, clean):
    assert clean_name(name) == clean


def test_long_name_keeps_its_extension():
    assert clean_name("x" * 500 + ".pdf").endswith("….pdf")


@given(st.text(max_size=300))
def test_any_name_becomes_short_and_visible_and_then_stays(name):
    clean = clean_name(name)
    assert 0 < len(clean) <= MAX_LENGTH
    assert not any(unicodedata.category(letter) in ("Cc", "Cs") or letter in "/\\\u202e\u2066" for letter in clean)
    assert clean_name(clean) == clean


def test_existing_names_get_the_first_free_number():
    assert unique_name("a.pdf", set()) == "a.pdf"
    assert unique_name("a.pdf", {"a.pdf"}) == "a (2).pdf"
    assert unique_name("a.pdf", {"a.pdf", "a (2).pdf"}) == "a (3).pdf"
    assert unique_name("README", {"README"}) == "README (2)"
