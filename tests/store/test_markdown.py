"""Tables whose cells repeat their header, blocks, and the headings above an offset."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.markdown import contexts_at, format_row, format_table, parse_row, split_blocks

MODELS = [["Model", "Weight", "Fuse"], ["A10", "151 kg", "20 A"], ["B20", "160 kg", ""]]


def test_every_cell_follows_its_header_and_empty_cells_are_left_out():
    assert (
        format_table(MODELS, has_header=True)
        == "| Model: A10 | Weight: 151 kg | Fuse: 20 A |\n| Model: B20 | Weight: 160 kg |"
    )


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (MODELS, "| Model: A10 | Weight: 151 kg | Fuse: 20 A |"),
        ([["Weight", "151 kg"], ["Fuse", "20 A"]], "| Weight: 151 kg |"),
        ([["", "2022", "2023"], ["Sales", "4.1", "4.5"]], "| Sales | 2022: 4.1 | 2023: 4.5 |"),
        ([["Code", "Cause", "Remedy"], ["E1", "No water", "Wait"]], "| Code: E1 | Cause: No water | Remedy: Wait |"),
        ([["1", "2", "3"], ["4", "5", "6"]], "| 1 | 2 | 3 |"),
        ([["Year", "Sales"], ["2022", "4.1"]], "| Year: 2022 | Sales: 4.1 |"),
    ],
)
def test_a_header_is_recognized_by_the_cells_below_it(rows, expected):
    assert format_table(rows).split("\n")[0] == expected


def test_a_row_with_a_first_cell_only_is_a_group():
    rows = [["Region", "2023"], ["Europe", ""], ["Germany", "4"], ["France", "5"]]
    assert format_table(rows).split("\n") == [
        "| Europe |",
        "| Region: Europe, Germany | 2023: 4 |",
        "| Region: Europe, France | 2023: 5 |",
    ]


def test_a_row_whose_other_cells_are_blank_is_no_group_unless_it_ends_with_a_colon():
    rows = [["Name", "Phone"], ["Ann", "123"], ["Bob", ""], ["Carol", "456"], ["Abroad:", ""], ["Dora", "7"]]
    assert format_table(rows, has_header=True).split("\n") == [
        "| Name: Ann | Phone: 123 |",
        "| Name: Bob |",
        "| Name: Carol | Phone: 456 |",
        "| Abroad: |",
        "| Name: Abroad, Dora | Phone: 7 |",
    ]


def test_a_table_with_a_header_only_is_kept():
    assert format_table([["Part no.", "Signature"]], has_header=True) == "| Part no. | Signature |"


def test_blank_rows_and_columns_are_left_out_and_bars_and_line_ends_replaced():
    rows = [["Name", "", "Note"], ["", "", ""], ["a | b", "", "one\ntwo"]]
    assert format_table(rows, has_header=True) == "| Name: a / b | Note: one two |"
    assert format_table([["", ""], []]) == ""


@pytest.mark.parametrize(
    ("first", "has_header"),
    [
        (["Course office", "Ada Ray", "room 0.07, ext. -20", "Mon 8:00-12:00"], False),  # the room of a first person
        (["Room", "As of 31.12.2024", "Week 1", "Mon 9:00-10:30"], True),
        (["Site", "Manager", "Room 2024", "Hours"], True),
    ],
)
def test_a_first_row_of_the_same_kind_as_the_others_is_no_header(first, has_header):
    others = [["Accounts", "Bo Lee", "room 1.12, ext. -34", "Tue"], ["Residence", "Cy Poe", "Hall A, ext. -51", "Wed"]]
    assert format_table([first, *others]).startswith(f"| {first[0]} | ") != has_header


@given(st.lists(st.tuples(st.sampled_from(["", "Weight", "In 2023"]), st.text("ab 1,.€-", min_size=1)), min_size=1))
def test_a_row_is_parsed_as_it_was_written(cells):
    cells = [(name, value.strip()) for name, value in cells if value.strip()]
    assert parse_row(format_row(cells)) == cells if cells else True


@pytest.mark.parametrize("line", ["", "| half", "text | with | bars", "a |"])
def test_other_lines_are_no_rows(line):
    assert parse_row(line) is None


def test_blocks_of_a_text():
    text = "# Title\nIntro:\n\n- one\n  more\n\n- two\n| a: 1 |\n| a: 2 |\n\nEnd."
    blocks = [(block.kind, text[block.start : block.end]) for block in split_blocks(text)]
    assert blocks == [
        ("heading", "# Title"),
        ("paragraph", "Intro:"),
        ("list", "- one\n  more\n\n- two"),
        ("table", "| a: 1 |\n| a: 2 |"),
        ("paragraph", "End."),
    ]


@given(st.text("#-1.| a\n", max_size=60))
def test_blocks_are_in_order_and_leave_out_white_space_only(text):
    ends = [0]
    for block in split_blocks(text):
        assert not text[ends[-1] : block.start].strip() and block.start < block.end
        ends.append(block.end)
    assert not text[ends[-1] :].strip()


def test_the_context_of_an_offset_is_its_headings_and_the_line_above_its_table_or_list():
    text = "# T\n\n## A\n\nSteps:\n\n- a\n- c\n\n## B\ntext\n| a: 1 |\n| a: 2 |\n"
    offsets = [text.index(part) for part in ("# T", "- c", "## B", "text", "| a: 2")]
    assert contexts_at(text, offsets) == [(), ("T", "A", "Steps:"), ("T",), ("T", "B"), ("T", "B", "text")]


@pytest.mark.parametrize(
    ("line", "title"), [("# a", "a"), ("## a # b ##", "a # b"), ("# a \t#\t ", "a"), ("#  ##", "")]
)
def test_the_marks_that_close_a_heading_are_no_title(line, title):
    text = f"{line}\n\nText."
    assert contexts_at(text, [text.index("Text")]) == [(title,) if title else ()]


def test_a_heading_of_blanks_takes_linear_time():
    """This text is split in the application's own process, where the square of its length would stop all."""
    filler = " #" * 500_000
    text = f"# a{filler}x\n\nText."
    assert contexts_at(text, [len(text) - 1]) == [(f"a{filler}x",)]
