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


@pytest.mark.parametrize("marks", [["\u2022"] * 3, ["1", "2", "3"]])
def test_items_of_two_lines_keep_marks_that_stand_lower_and_apart(marks):
    page = text(72, 100, "The rules are:")
    for number, mark in enumerate(marks):
        y = 120 + 26 * number
        page += text(
            90, y, f"Rule {number}. Shut the gate of the field when you leave it,\nand lock it with the chain."
        )
        page += text(72, y + 2, mark, size=12)
    items = [line for line in read(page).split("\n") if "Rule" in line]
    expected = "Rule {}. Shut the gate of the field when you leave it, and lock it with the chain."
    mark = "- " if marks[0] == "\u2022" else "{}. "
    assert items == [f"{mark.format(number + 1)}{expected.format(number)}" for number in range(3)]


def test_a_list_goes_on_with_the_next_number_on_the_next_page():
    first, second = "1. Shut the gate.\n2. Lock it.", "3. Hang up the key.\n4. Go home."
    assert read(text(72, 700, first), text(72, 72, second)) == f"{first}\n{second}"
    assert read(text(72, 700, first), text(72, 72, "1. Ring.\n2. Wait.")) == f"{first}\n\n1. Ring.\n2. Wait."


def test_numbers_that_stand_apart_go_on_from_the_page_before():
    page = "".join(
        text(72, 72 + 14 * row, str(row + 5)) + text(90, 72 + 14 * row, line)
        for row, line in enumerate(["Press the button.", "Wait for the tone.", "Let go."])
    )
    assert read(page) == "5. Press the button.\n6. Wait for the tone.\n7. Let go."


@pytest.mark.parametrize(("last", "is_one"), [("(c) storms", True), ("(d) storms", False)])
def test_items_within_a_sentence_go_on_with_the_next_one(last, is_one):
    first = "3.3 These are not counted: (a) planned work, which takes place on Sunday; (b) strikes;"
    line, page = text(72, 712, last), text(72, 72, last)
    for found in (read(text(72, 700, first) + line), read(text(72, 700, first), page)):
        assert (found == f"{first} {last}") == is_one


@pytest.mark.parametrize(
    "lines",
    [
        "The tenant must: (a) pay the rent;\n(b) keep the flat clean;\n(c) not smoke;",
        "(a) the rent named in clause 4(a) below;\n(b) the deposit;\n(c) the keys;",
    ],
)
def test_items_on_lines_of_their_own_stay_there(lines):
    assert "\n(b)" in read(text(72, 100, lines)).replace("\n\n", "\n")
