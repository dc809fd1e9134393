"""List items in PDF pages."""

import pytest

from tests.support.pdf_text import BODY, joined, read, text


def test_list_items_have_a_line_each():
    items = "\u2022 first\n\u2022 second item, which is so long that it goes on in the"
    page = text(72, 100, BODY) + text(72, 150, items) + text(80, 174, "next line") + text(90, 186, "- nested")
    assert read(page + text(72, 198, "1. one\na) two")).split("\n\n")[1] == (
        "- first\n- second item, which is so long that it goes on in the next line\n  - nested\n1. one\na) two"
    )


def test_bullets_that_are_drawn_make_list_items():
    bullets = "".join(f"64 {694 - y} 4 4 re f " for y in (0, 12))
    assert read(text(72, 100, "first\nsecond") + bullets) == "- first\n- second"


def test_a_number_at_a_line_start_is_no_list_item():
    assert "section 3. It" in read(text(72, 100, "Whatever tenants have to do is said in section\n3. It is short."))


def test_paragraphs_that_count_from_1_are_list_items():
    page = text(
        72, 100, "1 Ring the office of the landlord within\na day, and tell it the number.\n2 Collect the keys."
    )
    page += text(72, 150, "3 Send a copy.")
    first, *others = read(page).split("\n")
    assert first == "1. Ring the office of the landlord within a day, and tell it the number."
    assert others == ["2. Collect the keys.", "3. Send a copy."]


@pytest.mark.parametrize(
    "lines", ["1 Ring the office.\n2 Collect the keys.", "2 Dogs\n3 Cats\n4 Birds", "1 of\n2 to\n3 in"]
)
def test_other_numbers_at_line_starts_stay(lines):
    assert joined(read(text(72, 100, lines))) == joined(lines)
