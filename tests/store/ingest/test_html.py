"""HTML: tables with merged cells, layout tables, lists, titles, and the main part of a page."""

import pytest

from store.ingest import parse


def lines_of(page):
    return [line for line in parse(f"<html>{page}".encode(), "a.html").text.split("\n") if line]


def test_headers_of_several_rows_combine_and_merged_cells_are_repeated():
    page = (
        "<table><caption>Revenue</caption><thead><tr><th rowspan=2>Region<th colspan=2>2024"
        "<tr><th>Q1<th>Q2<tbody><tr><td rowspan=2>North<td>1<td>2<tr><td>3<td>4<tr><td>South<td colspan=2>none</table>"
    )
    assert lines_of(page) == [
        "Revenue",
        "| Region: North | 2024 Q1: 1 | 2024 Q2: 2 |",
        "| Region: North | 2024 Q1: 3 | 2024 Q2: 4 |",
        "| Region: South | 2024 Q1: none | 2024 Q2: none |",
    ]


def test_a_row_of_one_cell_is_the_title_of_a_table_or_a_group_in_it():
    page = "<table><tr><th colspan=2>Fees<tr><th>Item<th>Price<tr><td colspan=2>Adults<tr><td>Day<td>5</table>"
    assert lines_of(page) == ["Fees", "| Adults: |", "| Item: Adults, Day | Price: 5 |"]


@pytest.mark.parametrize("wrapped", ["{}", "<div>{}</div>"])
def test_the_caption_of_a_figure_stands_above_its_table(wrapped):
    table = wrapped.format("<table><tr><th>Zone<th>Days<tr><td>UK<td>2</table>")
    caption = "<figcaption>Delivery times</figcaption>"
    for page in (f"<figure>{table}{caption}</figure>", f"<figure>{caption}{table}</figure>"):
        assert lines_of(page) == ["Delivery times", "| Zone: UK | Days: 2 |"]
    assert lines_of(f"<figure><p>Boat</p>{caption}</figure>") == ["Boat", "Delivery times"]


@pytest.mark.parametrize("group", ["<td colspan=2>Children", "<th>Children<td>", "<td><b>Children</b><td>"])
def test_a_merged_or_bold_row_is_a_group_and_an_incomplete_one_is_not(group):
    page = f"<table><tr><th>Item<th>Price<tr><td>Day<td>5<tr><td>Week<td><tr>{group}<tr><td>Day<td>3</table>"
    assert lines_of(page) == [
        "| Item: Day | Price: 5 |",
        "| Item: Week |",
        "| Children: |",
        "| Item: Children, Day | Price: 3 |",
    ]


def test_exponents_and_marks_of_notes_are_no_digits_of_the_number_before_them():
    page = '<p>10<sup>6</sup> items on 25 m<sup>2</sup> in 2019<sup><a href="#n">1</a></sup>'
    assert lines_of(page) == ["10\u2076 items on 25 m\u00b2 in 2019[1]"]
    assert lines_of("the 2<sup>nd</sup> H<sub>2</sub>O") == ["the 2nd H2O"]


def test_a_page_declared_as_latin_1_is_read_as_browsers_do():
    page = '<meta charset="ISO-8859-1"><p>10\u201320 \u20ac \u201cnew\u201d'
    assert parse(page.encode("cp1252"), "a.html").text == "10\u201320 \u20ac \u201cnew\u201d"
    assert parse(b"\xef\xbb\xbf" + page.encode(), "a.html").text == "10\u201320 \u20ac \u201cnew\u201d"


@pytest.mark.parametrize(
    "cells",
    [
        "<tr><td>left<td>right",
        "<tr><td>left<tr><td>right",
        "<tr><td><h2>left</h2><td>right<tr><td colspan=2>",
        "<tr><td>left<td><table><tr><td>right</table><tr><td colspan=2>",
    ],
)
def test_layout_tables_are_paragraphs(cells):
    assert [line.lstrip("# ") for line in lines_of(f"<table>{cells}</table>")] == ["left", "right"]


def test_a_table_in_a_cell_stays_in_its_row():
    inner = "<table><tr><th>From<th>To<tr><td>Rome<td>Oslo<tr><td>Oslo<td>Rome</table>"
    page = f"<table><tr><th>Name<th>Trips<tr><td>Anna<td>{inner}</table>"
    assert lines_of(page) == ["| Name: Anna | Trips: From: Rome, To: Oslo; From: Oslo, To: Rome |"]


def test_cells_are_plain_text():
    page = "<table><tr><th>Name<th>Likes<tr><td><b>Anna</b><td><ul><li>tea<li>a | b</ul></table>"
    assert lines_of(page) == ["| Name: Anna | Likes: tea; a / b |"]


def test_each_list_item_is_a_line_and_a_term_stands_before_its_definition():
    page = "<ul><li>one\nline<li>two<ol start=3><li>three</ol></ul><dl><dt>Weight<dd>15 kg<dt>Colour<dd>blue</dl>"
    assert lines_of(page) == ["- one line", "- two", "  3. three", "- Weight: 15 kg", "- Colour: blue"]


def test_menus_and_footers_are_left_out_if_the_main_part_is_marked():
    frame = "<nav>menu</nav>{}<footer>imprint</footer><div role=dialog>cookies</div><button>Buy</button>"
    text = "<header><h1>Title</h1></header><button aria-expanded=true>More</button><p>text<button>Share</button>"
    text += "<aside>note</aside>"
    assert lines_of(frame.format(f"<form><main>{text}</main></form>")) == ["# Title", "More", "text", "note"]
    assert {"menu", "imprint"} <= set(lines_of(frame.format(text)))


def test_left_out_end_tags_make_no_nested_lists():
    assert lines_of("<ol><li>one<li>two<p>more<li>three</ol>") == ["1. one", "2. two", "   more", "3. three"]


def test_a_cell_cannot_cover_a_whole_large_table(monkeypatch):
    page = "<table>" + "<tr><td colspan=99 rowspan=99>a<td>b" * 20
    assert max(map(len, lines_of(page))) > 50
    monkeypatch.setattr("store.ingest.web.html_tables.MAX_CELLS", 10)
    assert lines_of(page) == ["| a: b |"] * 20


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (
            "<tr><td>Place</td><td colspan=2>Limit</td></tr><tr><td></td><td>room</td><td>meals</td></tr>"
            "<tr><td>London</td><td>185</td><td>40</td></tr>",
            "| Place: London | Limit room: 185 | Limit meals: 40 |",
        ),
        (
            "<tr><td rowspan=2>Site</td><td colspan=2>Phosphate</td></tr><tr><td>2024</td><td>2025</td></tr>"
            "<tr><td>H01</td><td>0.04</td><td>0.05</td></tr>",
            "| Site: H01 | Phosphate 2024: 0.04 | Phosphate 2025: 0.05 |",
        ),
        (  # a number names no column
            "<tr><td>Place</td><td colspan=2>Limit</td></tr><tr><td></td><td>185</td><td>40</td></tr>"
            "<tr><td>Rome</td><td>150</td><td>30</td></tr>",
            "| Place: Rome | Limit: 150 | Limit: 30 |",
        ),
        (  # the second row names something itself
            "<tr><td>Name</td><td colspan=2>Address</td></tr><tr><td>Ann</td><td>Mill Lane</td><td>York</td></tr>"
            "<tr><td>Bob</td><td>High Street</td><td>Leeds</td></tr>",
            "| Name: Bob | Address: High Street | Address: Leeds |",
        ),
    ],
)
def test_a_row_of_names_below_merged_cells_belongs_to_the_header(rows, expected):
    assert expected in lines_of(f"<table>{rows}</table>")
