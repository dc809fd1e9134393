"""Markdown files: tables and underlined headings are rewritten, all else is unchanged."""

import pytest

from store.ingest import parse


def text_of(content):
    return parse(content.encode(), "a.md").text


def test_each_row_of_a_table_has_its_header():
    content = "before\n\n| Name | Note |\n|:-----|-----:|\n| Cup | a \\| b |\n| Jug | new |\n\nafter"
    assert text_of(content) == "before\n\n| Name: Cup | Note: a / b |\n| Name: Jug | Note: new |\n\nafter"


@pytest.mark.parametrize("content", ["```\na | b\n--|--\n1 | 2\n```", "~~~~\nText\n===\n~~~\n~~~~", "a | b\nc | d"])
def test_code_and_lines_without_a_delimiter_row_are_unchanged(content):
    assert text_of(content) == content


def test_a_table_without_outer_pipes_ends_at_a_line_without_pipes():
    assert text_of("a | b\n--|--\n1 | 2\nend") == "| a: 1 | b: 2 |\nend"


def test_a_table_whose_header_is_blank_has_none():
    assert text_of("| | |\n|--|--|\n| Date | 22 May |\n| Chair | Ada |") == "| Date: 22 May |\n| Chair: Ada |"


def test_line_breaks_in_cells_are_spaces_and_indented_code_is_no_table():
    assert text_of("| Name | Note |\n|--|--|\n| Ann<br>Bo | x |") == "| Name: Ann Bo | Note: x |"
    code = "text\n\n    code | with\n    --|--\n    1 | 2"
    assert text_of(code) == code


def test_underlined_headings_become_ones_with_hashes_and_rules_stay():
    assert text_of("Title\n=====\n\nPart\n---\n\n- item\n---") == "# Title\n\n## Part\n\n- item\n---"


def test_front_matter_is_kept_as_text():
    content = "---\ntitle: Plan\ndate: 2024-05-01\n---\ntext"
    assert text_of(content) == content
