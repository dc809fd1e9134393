"""Excel files: sheets, tables within a sheet, headers, and values as they are displayed."""

import io
from datetime import datetime, time, timedelta

import pytest
from openpyxl import Workbook
from openpyxl.styles import Font

from store.errors import DocumentTooLarge
from store.ingest import parse
from store.ingest.office.number_format import display


def book(*rows, merges=(), bold=None):
    workbook = Workbook()
    for row in rows:
        workbook.active.append(row)
    for merge in merges:
        workbook.active.merge_cells(merge)
    for cell in workbook.active[bold] if bold else ():
        cell.font = Font(bold=True)
    return workbook


def parsed(workbook):
    file = io.BytesIO()
    workbook.save(file)
    return parse(file.getvalue(), "a.xlsx")


def lines_of(workbook):
    return [line for line in parsed(workbook).text.split("\n") if line][1:]  # without the heading


def test_each_visible_sheet_is_a_section_and_hidden_ones_give_a_warning():
    workbook = book(["Item", "Price", "Tax"], ["Cup", 3, 1])
    workbook.create_sheet("Empty")
    workbook.create_sheet("Secret").append(["hidden"])
    workbook["Secret"].sheet_state = "hidden"
    document = parsed(workbook)
    assert document.text == "## Sheet\n\n| Item: Cup | Price: 3 | Tax: 1 |"
    assert document.warning == "1 hidden sheet was left out: Secret."


def hide(workbook, *rows, columns=""):
    for row in rows:
        workbook.active.row_dimensions[row].hidden = True
    for column in columns:
        workbook.active.column_dimensions[column].hidden = True


def test_hidden_rows_and_columns_are_left_out_with_a_warning():
    workbook = book(["Item", "Cost", "Price", None], ["Cup", 1, 3], ["Draft", 1, 4], ["Jug", 2, 5], bold=1)
    hide(workbook, 3, columns="BD")
    document = parsed(workbook)
    assert document.text.split("\n")[2:] == ["| Item: Cup | Price: 3 |", "| Item: Jug | Price: 5 |"]  # one table
    assert document.warning == "1 hidden row and 1 hidden column were left out."


def test_rows_out_of_view_by_a_filter_or_in_a_collapsed_group_are_read():
    workbook = book(["Item", "Price"], ["Cup", 3], ["Jug", 5], bold=1)
    workbook.active.row_dimensions.group(3, 3, hidden=True)
    assert len(lines_of(workbook)) == 2
    workbook = book(["Item", "Price"], ["Cup", 3], ["Jug", 5], bold=1)
    hide(workbook, 3)
    workbook.active.auto_filter.ref = "A1:B3"
    assert len(lines_of(workbook)) == 1
    workbook.active.auto_filter.add_filter_column(0, ["Cup"])
    assert len(lines_of(workbook)) == 2


def test_a_bold_row_is_a_group_and_an_incomplete_one_is_not():
    workbook = book(["Item", "Price"], ["Day", 5], ["Week"], ["Children"], ["Day", 3], bold=1)
    workbook.active["A4"].font = Font(bold=True)
    assert lines_of(workbook) == [
        "| Item: Day | Price: 5 |",
        "| Item: Week |",
        "| Children: |",
        "| Item: Children, Day | Price: 3 |",
    ]


def test_blank_rows_separate_tables_but_not_a_total_from_its_columns():
    rows = [["Item", "Price"], ["Cup", 3], [], ["Total", 3], [], ["Name", "City"], ["Anna", "Rome"], [], ["A note."]]
    assert lines_of(book(*rows, bold=6)) == [
        "| Item: Cup | Price: 3 |",
        "| Item: Total | Price: 3 |",
        "| Name: Anna | City: Rome |",
        "A note.",
    ]


def test_titles_stand_above_and_merged_headers_combine():
    rows = [["Sales"], ["Region", 2024, None], [None, "Q1", "Q2"], ["North", 1, 2], [None, 3, 4]]
    assert lines_of(book(*rows, merges=["A1:C1", "B2:C2", "A2:A3", "A4:A5"])) == [
        "Sales",
        "| Region: North | 2024 Q1: 1 | 2024 Q2: 2 |",
        "| Region: North | 2024 Q1: 3 | 2024 Q2: 4 |",
    ]


def test_a_row_of_months_above_numbers_is_a_header():
    workbook = book(["Item", datetime(2024, 1, 1), datetime(2024, 2, 1)], ["Rent", 5, 6])
    for cell in workbook.active[1][1:]:
        cell.number_format = "mmm-yy"
    assert lines_of(workbook) == ["| Item: Rent | 2024-01: 5 | 2024-02: 6 |"]


def test_formulas_without_a_value_are_shown_and_counted():
    document = parsed(book(["Item", "Price", "Tax"], ["Cup", 3, 1], ["Total", "=SUM(B2:B2)", 1]))
    assert "| Item: Total | Price: =SUM(B2:B2) | Tax: 1 |" in document.text
    assert document.warning.startswith("1 cell has a formula without a computed value")


@pytest.mark.parametrize(
    "value, number_format, expected",
    [
        (1234.5, "General", "1234.5"),
        (0.1 + 0.2, "General", "0.3"),
        (0.125, "0.0%", "12.5%"),
        (-1234.5, '#,##0.00 "EUR"', "-1,234.50 EUR"),
        (1234.5, "[$€-407] #,##0", "€ 1,234"),
        (5, "$#,##0.00_);($#,##0.00)", "$5.00"),
        (2.5, "0.##", "2.5"),
        (99, "00000", "00099"),
        (4_200_000, '#,##0.0,," m"', "4.2 m"),
        (0.5, "# ?/?", "0.5"),
        (12345.678, "0.00E+00", "12345.678"),
        (True, "General", "TRUE"),
        (datetime(2024, 5, 1), "d.m.yy", "2024-05-01"),
        (datetime(2024, 5, 1, 13, 30), "d.m.yy h:mm", "2024-05-01 13:30"),
        (time(9, 30), "h:mm", "09:30"),
        (timedelta(hours=40), "[h]:mm", "40:00"),
        (timedelta(hours=26, minutes=3, seconds=5), "[h]:mm:ss", "26:03:05"),
        (datetime(2024, 3, 4), "yyyy", "2024"),
    ],
)
def test_values_are_written_as_displayed_and_dates_by_iso_8601(value, number_format, expected):
    assert display(value, number_format) == expected


def test_too_many_cells_are_rejected(monkeypatch):
    monkeypatch.setattr("store.ingest.office.xlsx.MAX_CELLS", 10)
    with pytest.raises(DocumentTooLarge, match="over 10 cells"):
        parsed(book(*[["a", "b"]] * 6))


def test_a_cell_far_away_needs_no_memory_for_those_between():
    workbook = book(["near"])
    workbook.active["XFD1000000"] = "far"
    assert lines_of(workbook) == ["near", "far"]
