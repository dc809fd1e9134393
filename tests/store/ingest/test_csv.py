"""CSV and TSV files: delimiters, headers, odd rows, and limits."""

import pytest

from store.errors import DocumentTooLarge
from store.ingest import parse
from store.limits import Limits


def lines_of(content, name="a.csv"):
    return parse(content.encode(), name).text.split("\n")


@pytest.mark.parametrize("delimiter", ",;\t|")
def test_the_delimiter_is_the_one_with_equally_long_rows(delimiter):
    rows = [["Name", "Price", "Note"], ["Cup", "1.5", '"a, b; c"'], ["Jug", "2", "d"]]
    content = "\n".join(delimiter.join(row) for row in rows)
    assert lines_of(content) == [
        "Table with 2 rows and the columns Name, Price, Note.",
        "| Name: Cup | Price: 1.5 | Note: a, b; c |",
        "| Name: Jug | Price: 2 | Note: d |",
    ]


def test_decimal_commas_are_no_delimiters():
    assert lines_of("Name;Preis\nTasse;1,5\nKanne;2,25")[1] == "| Name: Tasse | Preis: 1,5 |"


def test_a_tsv_file_is_split_at_tabs_only():
    assert lines_of("Name,first\tCity\nAnna,Bo\tRome", "a.tsv")[1] == "| Name,first: Anna,Bo | City: Rome |"


def test_a_text_with_commas_is_not_a_table():
    assert lines_of("a,b\n1,2", "a.txt") == ["a,b", "1,2"]


@pytest.mark.parametrize("content, has_header", [("1,2\n3,4", False), ("a,2024\nb,4", True), ("a,b\nc,d", True)])
def test_the_first_row_is_a_header_unless_it_has_numbers_like_those_below(content, has_header):
    assert ("the columns" in lines_of(content)[0]) is has_header


def test_titles_quoted_line_ends_and_rows_of_any_length_are_kept():
    assert lines_of('Report\n\nName,City\n"An\nna",Rome,extra\nBo\n') == [
        "Report",
        "Table with 2 rows and the columns Name, City.",
        "| Name: An na | City: Rome | extra |",
        "| Name: Bo |",
    ]


def test_a_quotation_mark_that_is_never_closed_leaves_plain_text():
    content = 'a,b\n1,"' + "x" * 200_000
    assert lines_of(content) == content.split("\n")


@pytest.mark.parametrize("content", ["a,b\n" + "1,2\n" * 3000, "," * 3000 + "b\n" + "x\n" * 3000])
def test_too_many_rows_or_cells_are_rejected_early(content, monkeypatch):
    monkeypatch.setattr("store.ingest.csv_file.MAX_CELLS", 1_000_000)
    with pytest.raises(DocumentTooLarge, match="is the limit"):
        parse(content.encode(), "a.csv", Limits(max_characters=20_000))


def test_lines_above_the_header_are_text():
    content = "Report of sales\nGenerated 2024-01-01\n\nRegion,Sales,Cost\nNorth,10,20\nSouth,30,40"
    assert lines_of(content) == [
        "Report of sales",
        "Generated 2024-01-01",
        "Table with 2 rows and the columns Region, Sales, Cost.",
        "| Region: North | Sales: 10 | Cost: 20 |",
        "| Region: South | Sales: 30 | Cost: 40 |",
    ]
    content = "Konto;DE12 3456;;\nStand:;4,50;;\n\nDatum;Wer;Zweck;Betrag\n02.01.2024;REWE;Einkauf;-12,50\n"
    assert lines_of(content + "03.01.2024;Bo;Miete;-500,00")[:4] == [
        "Konto: DE12 3456",
        "Stand: 4,50",
        "Table with 2 rows and the columns Datum, Wer, Zweck, Betrag.",
        "| Datum: 02.01.2024 | Wer: REWE | Zweck: Einkauf | Betrag: -12,50 |",
    ]


def test_a_header_with_a_blank_first_cell_is_no_title():
    assert lines_of(",a,b\nx,1,2\ny,3,4")[1] == "| x | a: 1 | b: 2 |"


def test_a_second_header_after_a_blank_line_begins_another_table():
    content = "Item,Price\nCoffee,3.50\nTea,2.00\n\nTotal,5.50\n\nItem,Stock\nCoffee,20\nTea,30"
    assert lines_of(content) == [
        "Table with 3 rows and the columns Item, Price.",
        "| Item: Coffee | Price: 3.50 |",
        "| Item: Tea | Price: 2.00 |",
        "| Item: Total | Price: 5.50 |",
        "Table with 2 rows and the columns Item, Stock.",
        "| Item: Coffee | Stock: 20 |",
        "| Item: Tea | Stock: 30 |",
    ]


def test_blank_lines_between_all_rows_separate_no_tables():
    assert lines_of("Name,City\n\nAnn,Rome\n\nBo,Oslo\n")[1:] == [
        "| Name: Ann | City: Rome |",
        "| Name: Bo | City: Oslo |",
    ]
