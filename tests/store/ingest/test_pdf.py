"""PDF pages become Markdown that keeps what their layout means."""

import time
from dataclasses import replace
from types import SimpleNamespace

import pytest

from store.ingest import parse
from store.ingest.pdf import assembly
from store.ingest.pdf.columns import reading_order
from store.ingest.pdf.lines import glue, make_segment
from store.ingest.pdf.page import Word, clean, join_chars
from tests.support.files import drawn_pdf
from tests.support.pdf_text import BODY, MORE, joined, read, text

FEES = [["Plan", "Users", "Price"], ["Basic", "5", "10.00"], ["Team", "20", "25.50"], ["Group", "300", "99.00"]]
FEE_ROWS = (
    "| Plan: Basic | Users: 5 | Price: 10.00 |\n"
    "| Plan: Team | Users: 20 | Price: 25.50 |\n"
    "| Plan: Group | Users: 300 | Price: 99.00 |"
)


def cells(rows, y=100, xs=(72, 200, 300, 400, 500), step=20):
    return "".join(
        text(x, y + step * number, cell)
        for number, row in enumerate(rows)
        for x, cell in zip(xs, row, strict=False)
        if cell
    )


def rules(xs, ys):
    """Draw the lines of a grid."""
    lines = [(xs[0], y, xs[-1], y) for y in ys] + [(x, ys[0], x, ys[-1]) for x in xs]
    return "".join(f"{x0} {792 - y0} m {x1} {792 - y1} l S " for x0, y0, x1, y1 in lines)


def test_lines_of_a_paragraph_are_joined_and_paragraphs_separated():
    assert read(text(72, 100, BODY) + text(72, 150, MORE)) == f"{joined(BODY)}\n\n{joined(MORE)}"


def test_an_indent_starts_a_paragraph():
    first, *others = MORE.split("\n")
    full = BODY.replace("them in writing", "them in writing, long before it begins")
    page = text(72, 100, full) + text(84, 136, first) + text(72, 148, "\n".join(others))
    assert read(page) == f"{joined(full)}\n\n{joined(MORE)}"


def test_a_stretched_line_is_part_of_its_paragraph():
    stretched = "".join(
        text(72 + 48 * number, 112, word) for number, word in enumerate(["which", "must", "have", "been"])
    )
    page = text(72, 100, "The rent is six hundred euros per week,", 10) + stretched + text(72, 124, "paid early.")
    assert read(page) == "The rent is six hundred euros per week, which must have been paid early."


def test_lines_that_end_on_purpose_stay_lines():
    assert "ACME Ltd\n5 Main Street\nLondon" in read(
        text(72, 100, BODY) + text(72, 150, "ACME Ltd\n5 Main Street\nLondon")
    )


@pytest.mark.parametrize(
    "before, after, whole",
    [
        ("the recom-", "putation", "the recomputation"),
        ("a long-", "term plan", "a long-term plan"),
        ("Miet-", "vertrag", "Mietvertrag"),
        ("Haus-", "und Gartenarbeit", "Haus- und Gartenarbeit"),
        ("Nord-", "Süd", "Nord-Süd"),
        ("a co-", "operative", "a co-operative"),  # as the document spells it elsewhere
        ("up for re-elec-", "tion", "up for re-election"),
        ("state-of-the-", "art methods", "state-of-the-art methods"),
        ("2023-", "2024", "2023-2024"),
        ("one", "two", "one two"),
        ("東京", "都", "東京都"),
    ],
)
def test_line_ends_inside_words(before, after, whole):
    assert "".join(glue(before, after, frozenset(["co-operative", "the", "art"]))) + after == whole


def test_a_paragraph_goes_on_in_the_next_column_and_on_the_next_page():
    parsed = parse(drawn_pdf(text(72, 100, "Whatever they had recom-"), text(72, 100, "mended was done.")), "a.pdf")
    assert parsed.text == "Whatever they had recommended was done."
    assert parsed.page_starts == (0, parsed.text.index("mended"))


def test_ligatures_and_soft_hyphens_become_plain_letters():
    assert clean("e\ufb03cient \ufb02at, co\xadoperate, hand\xad\nbook") == "efficient flat, cooperate, hand-\nbook"


def test_headers_footers_and_page_numbers_are_dropped():
    pages = [
        text(72, 30, f"Lease, sheet {number}") + text(72, 100, f"Text {name}") + text(300, 770, f"Page {number} of 3")
        for number, name in enumerate(["one", "two", "three"], start=1)
    ]
    assert read(*pages) == "Text one\n\nText two\n\nText three"


def test_a_single_page_loses_its_bare_page_number_only():
    page = text(72, 30, "Lease of 2024") + text(72, 100, BODY)
    assert read(page + text(300, 770, "- 3 -")) == f"Lease of 2024\n\n{joined(BODY)}"
    assert read(page + text(300, 770, "See 3 above")).endswith("See 3 above")


def test_values_inside_pages_that_are_alike_are_kept():
    pages = [text(72, 30, "Payslip") + text(72, 300, f"Salary {month}00 euros") for month in (1, 2, 3)]
    assert read(*pages) == "Salary 100 euros\n\nSalary 200 euros\n\nSalary 300 euros"


def test_headings_by_size_weight_and_number():
    page = (
        text(72, 60, "Lease", 20) + text(72, 90, "Duties", 14) + text(72, 110, BODY) + text(72, 170, "Rent", bold=True)
        + text(72, 190, MORE) + text(72, 240, "3 Money", bold=True) + text(72, 260, BODY)
        + text(72, 310, "3.2 Deposit", bold=True) + text(72, 330, MORE)
    )  # fmt: skip
    headings = [line for line in read(page).split("\n") if line.startswith("#")]
    assert headings == ["# Lease", "## Duties", "### Rent", "## 3 Money", "### 3.2 Deposit"]


def test_a_bold_paragraph_is_no_heading():
    loud = MORE.replace(".", "!")
    page = text(72, 100, BODY) + text(72, 160, loud, bold=True) + text(72, 220, MORE)
    assert read(page) == f"{joined(BODY)}\n\n{joined(loud)}\n\n{joined(MORE)}"


def test_columns_are_read_one_by_one_between_what_spans_them():
    page = text(72, 60, "A title over both of the columns of this page", 20)
    for y, heading in ((100, ""), (200, "A heading over both of the columns")):
        page += text(72, y - 15, heading, 18) + text(72, y, BODY) + text(310, y + 3, MORE)
    body = f"{joined(BODY)}\n\n{joined(MORE)}"
    assert read(page) == (
        f"# A title over both of the columns of this page\n\n{body}\n\n## A heading over both of the columns\n\n{body}"
    )


@pytest.mark.parametrize("x, other", [(72, 320), (320, 72)], ids=["left", "right"])
@pytest.mark.parametrize("xs", [(), (-2, 220), (-2, 76, 136, 220)], ids=["no lines", "lines between rows", "grid"])
def test_a_table_in_a_column_keeps_its_row_labels(x, other, xs):
    page = text(x, 100, f"{BODY}\n{MORE}\n{BODY}") + cells(FEES, 230, (x, x + 80, x + 140)) + text(x, 302, "of ten")
    page += text(x, 340, f"{MORE}\n{BODY}\n{MORE}") + text(other, 103, MORE)
    page += rules([x + shift for shift in xs], (216, 236, 256, 276, 308)) if xs else ""
    table = FEE_ROWS.replace("Group", "Group of ten")
    column = f"{joined(f'{BODY} {MORE} {BODY}')}\n\n{table}\n\n{joined(f'{MORE} {BODY} {MORE}')}"
    assert " ".join(read(page).split()) == " ".join(
        (f"{column} {joined(MORE)}" if x < other else f"{joined(MORE)} {column}").split()
    )


@pytest.mark.parametrize("ys", [(), (166, 186, 206, 226, 246)], ids=["no lines", "lines between rows"])
@pytest.mark.parametrize("xs", [(72, 320, 420), (72, 180, 320), (72, 270, 330)], ids=["right", "left", "over the gap"])
def test_a_table_across_columns_of_text_stays_whole_below_its_caption(xs, ys):
    rows = [FEES[0], ["Basic", "5 per flat", "10.00"], *FEES[2:]]
    page = text(72, 100, BODY) + text(320, 103, MORE) + text(72, 156, "Table 2: Fees") + cells(rows, 180, xs)
    page += rules((70, 540), ys) if ys else ""
    table = f"Table 2: Fees\n\n{FEE_ROWS.replace('Users: 5', 'Users: 5 per flat')}"
    assert f"{joined(BODY)}\n\n{joined(MORE)}\n\n{table}\n\n{joined(MORE)}\n\n{joined(BODY)}" == read(
        page + text(72, 280, MORE) + text(320, 280, BODY)
    )


def test_a_bold_line_between_tables_without_lines_separates_them():
    meals = [
        ["Meal", "From", "Price"],
        ["Lunch", "12:00", "9.00"],
        ["Dinner", "18:00", "25.00"],
        ["Tea", "16:00", "6.50"],
    ]
    page = cells(FEES, 100, (72, 200, 300)) + text(72, 184, "Meals of the day", bold=True)
    assert read(page + cells(meals, 208, (72, 160, 340))) == (
        f"{FEE_ROWS}\n\n# Meals of the day\n\n| Meal: Lunch | From: 12:00 | Price: 9.00 |\n"
        "| Meal: Dinner | From: 18:00 | Price: 25.00 |\n| Meal: Tea | From: 16:00 | Price: 6.50 |"
    )


def test_a_row_that_begins_like_a_caption_stays_in_its_table():
    goods = [["Item", "Price", "Stock"], ["Chair", "12.50", "4"], ["Table", "100.00", "1"], ["Lamp", "9.99", "7"]]
    assert "| Item: Table | Price: 100.00 | Stock: 1 |" in read(cells(goods, 100, (72, 200, 300)))


def test_tables_side_by_side_stay_two():
    columns = [text(x, 100, BODY) + cells(FEES, 160, (x, x + 80, x + 140)) + text(x, 250, MORE) for x in (72, 320)]
    assert read("".join(columns)).split("\n\n") == 2 * [joined(BODY), FEE_ROWS, joined(MORE)]


@pytest.mark.parametrize("x, other", [(72, 320), (320, 72)], ids=["left", "right"])
@pytest.mark.parametrize("xs", [(), (-2, 76, 136, 220)], ids=["no lines", "grid"])
def test_a_table_beside_text_stays_apart_from_it(x, other, xs):
    page = cells(FEES, 100, (x, x + 80, x + 140)) + text(other, 93, f"{BODY}\n{MORE}")
    page += rules([x + shift for shift in xs], range(86, 167, 20)) if xs else ""
    text_beside = joined(f"{BODY}\n\n{MORE}")
    assert joined(read(page)) == joined("\n\n".join([FEE_ROWS, text_beside][:: 1 if x < other else -1]))


@pytest.mark.parametrize("end, shift", [("\n", 0), ("\n", 5), (" ", 0)], ids=["two lines", "centred", "one line"])
def test_descriptions_stay_in_their_rows(end, shift):
    notes = [
        "sent back to the\nmaker of the part",
        "lost on the long\nway to the owner",
        "kept by those who\nhad paid for it",
    ]
    notes = [note.replace("\n", end) for note in notes]
    page = cells([[*FEES[0], "Note"]], 80) + cells(FEES[1:], 104 + shift, step=25.8)
    page += "".join(text(400, 104 + 25.8 * number, note, 8) for number, note in enumerate(notes))
    for row, note in zip(FEE_ROWS.split("\n"), notes, strict=True):
        assert f"{row[:-1]}| Note: {joined(note)} |" in read(page)


def test_a_heading_below_columns_of_equal_length_ends_them_if_wide_text_follows():
    page = text(72, 100, BODY) + text(310, 103, MORE) + text(72, 170, "Next", 18)
    wide = "This text goes over the whole width of the page, not over a column."
    body = f"{joined(BODY)}\n\n{joined(MORE)}"
    assert read(page + text(72, 190, wide)) == f"{body}\n\n# Next\n\n{wide}"
    assert read(page + text(72, 190, "Short.")) == f"{joined(BODY)}\n\n# Next\n\nShort.\n\n{joined(MORE)}"


def test_a_table_is_found_by_its_lines_with_its_place_and_caption():
    page = text(72, 80, BODY) + cells(FEES, 150) + rules((70, 190, 290, 450), range(136, 217, 20))
    page += text(72, 235, "Table 2: Fees") + text(72, 260, MORE)
    assert read(page) == f"{joined(BODY)}\n\nTable 2: Fees\n\n{FEE_ROWS}\n\n{joined(MORE)}"


def test_a_table_without_outer_sides_is_found_by_its_lines():
    lines = "".join(f"70 {792 - y} m 450 {792 - y} l S " for y in range(86, 207, 30)) + "190 706 m 190 586 l S "
    page = cells([row[:2] for row in FEES], step=30) + text(72, 141, "Offer") + lines
    assert read(page).split("\n") == [
        "| Plan: Basic Offer | Users: 5 |",
        "| Plan: Team | Users: 20 |",
        "| Plan: Group | Users: 300 |",
    ]


def test_a_shaded_column_is_no_table():
    lines = "".join(f"70 {792 - y} m 350 {792 - y} l S " for y in (86, 106, 166))
    assert read(cells(FEES) + lines + "0.9 g 196 626 54 80 re f ") == FEE_ROWS
    rows = [*FEES[:3], ["", *FEES[3][1:]]]
    assert read(cells(rows) + lines + "0.9 g 70 626 120 80 re f ") == FEE_ROWS.replace("Plan: Group | ", "")


def test_a_cell_beside_several_lines_comes_before_them():
    assert read(text(150, 100, BODY) + text(72, 112, "Rent:")) == f"Rent: {joined(BODY)}"
    assert read(text(150, 100, "one line or") + text(150, 112, "two of them") + text(72, 106, "Rent:")) == (
        "Rent: one line or two of them"
    )


def test_a_heading_separates_tables():
    page = cells(FEES) + text(72, 182, "Other", 12) + cells([["Size", "Rooms", "Doors"], *FEES[1:]], 202)
    assert read(page) == f"{FEE_ROWS}\n\n# Other\n\n" + (
        FEE_ROWS.replace("Plan", "Size").replace("Users", "Rooms").replace("Price", "Doors")
    )


def test_a_table_is_found_by_its_aligned_columns():
    assert read(text(72, 60, BODY) + cells(FEES, 120) + text(72, 220, MORE)) == (
        f"{joined(BODY)}\n\n{FEE_ROWS}\n\n{joined(MORE)}"
    )


def test_a_header_over_several_columns_goes_to_each_of_them():
    rows = [["Site", "2023", "", "2024"], ["", "Sales", "Profit", "Sales", "Profit"], ["Rome", "20", "5", "22", "6"]]
    grid = rules((70, 190, 290, 390, 490, 560), (86, 126, 146)) + "190 686 m 560 686 l S "
    expected = "| Site: Rome | 2023 Sales: 20 | 2023 Profit: 5 | 2024 Sales: 22 | 2024 Profit: 6 |"
    grid = grid.replace(f"290 {792 - 86} m", f"290 {792 - 106} m").replace(f"490 {792 - 86} m", f"490 {792 - 106} m")
    assert read(cells(rows) + grid) == expected
    rows[0] = ["", "      2023", "", "      2024"]
    without_lines = cells(
        [*rows, ["Paris", "30", "7", "33", "8"], ["Bonn", "1", "2", "3", "4"]], xs=(72, 200, 240, 300, 340)
    )
    assert expected.replace("Site: ", "") in read(without_lines)


def test_lines_of_a_cell_are_joined():
    rows = [[*FEES[0], "Note"], ["Basic", "5", "10.00", "for small"], ["", "", "", "offices"], *FEES[2:]]
    framed = rules((70, 190, 290, 390, 500), (86, 106, 146, 166, 186))
    for page in (
        cells(rows) + framed,
        cells(rows[:2], step=24) + cells(rows[2:3], 136) + cells(rows[3:], 160, step=24),
    ):
        assert "| Plan: Basic | Users: 5 | Price: 10.00 | Note: for small offices |" in read(page)


def test_a_table_goes_on_with_its_header_on_the_next_page():
    frame = rules((70, 190, 290, 450), range(86, 147, 20))
    later = [["Max", "900", "200.00"], ["Ultra", "999", "300.00"]]
    expected = ["| Plan: Max | Users: 900 | Price: 200.00 |", "| Plan: Ultra | Users: 999 | Price: 300.00 |"]
    for second in (cells(later) + rules((70, 190, 290, 450), (86, 106, 126)), cells([FEES[0], *later]) + frame):
        parsed = parse(drawn_pdf(cells(FEES[:3]) + frame, second), "a.pdf")
        assert parsed.text[parsed.page_starts[1] :].split("\n") == expected


@pytest.mark.parametrize(
    "rows",
    [
        [["1", "Introduction", "3"], ["2", "Methods", "7"], ["3", "Results", "19"]],
        [["ACME Ltd", "Tel. 0431 123", "IBAN DE12 3456"], ["5 Main Street", "www.acme.example", "BIC NOLADE21"],
         ["London", "Chair: A. Hansen", "First Bank"]],
        [["Dr", "one ........", "9"], ["Mr", "two ........", "5"], ["Ms", "three ........", "7"]],
    ],
    ids=["contents", "addresses", "leaders"],
)  # fmt: skip
def test_aligned_text_that_is_no_table(rows):
    assert "|" not in read(cells(rows, step=12))


@pytest.mark.parametrize("rotate, matrix", [(90, "0 1 -1 0 612 0"), (270, "0 -1 1 0 0 792"), (0, "0 1 -1 0 612 0")])
def test_turned_pages_are_read_upright(rotate, matrix):
    page = f"q {matrix} cm 1 0 0 1 0 -180 cm {text(72, 100, BODY)} {cells(FEES, 200)} Q"
    assert read(page, rotate=rotate) == f"{joined(BODY)}\n\n{FEE_ROWS}"


def test_right_to_left_words_keep_the_order_of_the_file():
    words = [Word("שלום", 300, 330, 100, 10, index=0), Word("עולם", 260, 290, 100, 10, index=5)]
    assert make_segment(words[::-1]).text == "שלום עולם"


def test_right_to_left_letters_that_are_stored_from_the_left_are_reversed():
    letters = [Word(letter, 10 * x, 10 * x + 9, 100, 10, index=x) for x, letter in enumerate("שלום")]
    assert join_chars(letters).text == "םולש"
    assert join_chars([replace(letter, x0=-letter.x0) for letter in letters]).text == "שלום"


def test_right_to_left_columns_start_with_the_right_one():
    columns = [
        [make_segment([Word(letter * 20, x, x + 99, y, 10)]) for y in (10, 20, 30)]
        for x, letter in ((0, "א"), (200, "ב"))
    ]
    assert reading_order([*columns[0], *columns[1]]) == columns[::-1]


@pytest.mark.parametrize(
    "name, value",
    [("page.MAX_PAGE_CHARS", 150), ("MAX_LAYOUT_SECONDS", -1)],
    ids=["characters", "time"],
)
def test_a_page_that_cannot_be_laid_out_becomes_plain_text(name, value, monkeypatch):
    monkeypatch.setattr(f"store.ingest.pdf.{name}", value)
    page = text(72, 30, "Lease") + text(72, 100, BODY) + cells(FEES[1:], 200)
    plain = read(page + text(300, 770, "1"), page + text(300, 770, "2")).replace("\n\n", "\n")
    own = f"{joined(BODY)}\nBasic 5 10.00\nTeam 20 25.50\nGroup 300 99.00"
    assert plain == f"{own}\n{own}"  # without header and page number


def test_the_time_limit_of_the_layout_excludes_text_recognition(monkeypatch):
    clock = SimpleNamespace(now=0.0, monotonic=lambda: clock.now)

    def recognize(image):
        clock.now += 1000
        return ["Scanned"]

    monkeypatch.setattr("store.ingest.pdf.time", clock)
    monkeypatch.setattr("store.ingest.pdf.assembly.time", clock)
    monkeypatch.setattr("store.ingest.ocr.available", lambda: True)
    monkeypatch.setattr("store.ingest.ocr.recognize", recognize)
    columns = text(72, 100, BODY) + text(310, 103, MORE)
    assert read(columns, "") == f"{joined(BODY)}\n\n{joined(MORE)}\n\nScanned"


@pytest.mark.parametrize("name", ["ruled_tables", "build_blocks"])
def test_a_page_whose_layout_fails_keeps_its_text_and_other_pages_their_layout(name, monkeypatch):
    original = getattr(assembly, name)
    monkeypatch.setattr(assembly, name, lambda *args: {}[1] if "broken" in str(args) else original(*args))
    parsed = read(text(72, 100, "This is broken"), cells(FEES))
    assert parsed == f"This is broken\n\n{FEE_ROWS}"


def test_a_page_of_very_many_lines_is_read_fast():
    start = time.monotonic()
    for steps in ((2, 2), (6, 8)):
        grid = rules(range(10, 600, steps[0]), range(10, 780, steps[1]))
        assert read(grid + text(72, 100, "Grid")) == "Grid"
    assert time.monotonic() - start < 5


@pytest.mark.parametrize("name, value", [("page.MAX_PAGE_LINES", 10), ("tables.MAX_INTERSECTIONS", 5)])
def test_a_page_of_too_many_lines_keeps_its_text(name, value, monkeypatch):
    page = cells([["Plan", "Users"], ["Basic", "5"]], step=30) + text(72, 141, "Offer")
    page += rules((70, 190, 290), (86, 116, 146))
    assert "Basic Offer" in read(page)
    monkeypatch.setattr(f"store.ingest.pdf.{name}", value)
    assert "Basic" in read(page) and "Basic Offer" not in read(page)


def test_raised_numbers_are_superscripts_and_lowered_ones_follow_without_a_space():
    line = text(72, 172, "We need 612 m") + text(136, 168, "3", size=8) + text(141, 172, ", saving CO")
    line += text(192, 177, "2", size=8) + text(200, 172, "this year.")
    assert read(text(72, 100, BODY) + line).split("\n\n")[1] == "We need 612 m\u00b3, saving CO2 this year."


@pytest.mark.parametrize("use", [0, 1])
def test_a_table_without_lines_below_text_is_not_torn_into_columns(use):
    lines = "Wait at least five minutes until the lamp on the drive is out, before you\nlift the belt off."
    page = "".join(text(72, 72 + 30 * number, lines) for number in range(4))
    rows = [
        ("Part", "Check", "Replace", "Order no.", ("Torque", "Suitable for")[use]),
        ("Drive belt", "monthly", "2 years", "LS-10", ("-", "machines up to 8 kg")[use]),
        ("Door seal", "weekly", "18 months", "LS-11", ("-", "all kinds of machines")[use]),
        ("Inlet valve", "yearly", "when leaking", "LS-12", ("2.5", "machines with hot water")[use]),
        ("Outlet valve", "yearly", "when leaking", "LS-13", ("2.5", "all but the small ones")[use]),
        ("Bearing set", "yearly", "10,000 hours", "LS-14", ("48", "slowly turning drums")[use]),
        ("Shock absorber", "6 months", "5 years", "LS-15", ("22", "every machine since 2019")[use]),
    ]
    found = read(page + cells(rows, y=220, xs=(72, 190, 260, 350, 430), step=14)).split("\n\n")[-1].split("\n")
    first = ("Torque: -", "Suitable for: machines up to 8 kg")[use]
    assert found[0] == f"| Part: Drive belt | Check: monthly | Replace: 2 years | Order no.: LS-10 | {first} |"
    assert len(found) == 6 and found[3].startswith("| Part: Outlet valve | Check: yearly | Replace: when leaking |")


def test_a_header_of_two_lines_and_a_name_in_brackets_stay_in_their_columns():
    rows = [
        ("Membership", "Per year", "Joining", "Notes"),
        ("", "", "fee", ""),
        ("Adult", "240", "30", "a"),
        ("Junior (under", "110", "none", "b"),
        ("18)", "", "", ""),
        ("Family", "420", "45", "c"),
    ]
    lines = "72 676 m 500 676 l S 72 600 m 500 600 l S "
    assert read(cells(rows, xs=(72, 200, 300, 400), step=12) + lines) == (
        "| Membership: Adult | Per year: 240 | Joining fee: 30 | Notes: a |\n"
        "| Membership: Junior (under 18) | Per year: 110 | Joining fee: none | Notes: b |\n"
        "| Membership: Family | Per year: 420 | Joining fee: 45 | Notes: c |"
    )
