"""Word files: headings of any style, numbers as Word shows them, footnotes, and tables with merged cells."""

import pytest

from store.ingest import parse
from store.markdown import contexts_at
from tests.support.files import W, docx, paragraph, table

STYLES = f"""<w:styles {W}>
<w:style w:type="paragraph" w:styleId="T"><w:name w:val="Title"/></w:style>
<w:style w:type="paragraph" w:styleId="H1"><w:name w:val="heading 1"/><w:pPr><w:outlineLvl w:val="0"/>
<w:numPr><w:numId w:val="1"/></w:numPr></w:pPr></w:style>
<w:style w:type="paragraph" w:styleId="H2"><w:name w:val="Unterabschnitt"/><w:basedOn w:val="H1"/><w:pPr>
<w:outlineLvl w:val="1"/></w:pPr></w:style></w:styles>"""
LEVELS = [("decimal", "%1", "H1"), ("decimal", "%1.%2", "H2"), ("lowerLetter", "(%3)", ""), ("lowerRoman", "%4.", "")]
NUMBERING = (
    f'<w:numbering {W}><w:abstractNum w:abstractNumId="7">'
    + "".join(
        f'<w:lvl w:ilvl="{level}"><w:start w:val="1"/><w:numFmt w:val="{kind}"/><w:pStyle w:val="{style}"/>'
        f'<w:lvlText w:val="{text}"/></w:lvl>'
        for level, (kind, text, style) in enumerate(LEVELS)
    )
    + '</w:abstractNum><w:num w:numId="1"><w:abstractNumId w:val="7"/></w:num><w:num w:numId="2"><w:abstractNumId '
    'w:val="7"/><w:lvlOverride w:ilvl="2"><w:startOverride w:val="5"/></w:lvlOverride></w:num></w:numbering>'
)
PARTS = {"word/styles.xml": STYLES, "word/numbering.xml": NUMBERING}


def item(text, level, number=1):
    properties = f'<w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="{number}"/></w:numPr>'
    return f"<w:p><w:pPr>{properties}</w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>"


def row(*cells):
    return f"<w:tr>{''.join(f'<w:tc><w:tcPr>{merge}</w:tcPr>{paragraph(text)}</w:tc>' for text, merge in cells)}</w:tr>"


def test_headings_lie_below_the_title_with_their_numbers():
    body = paragraph("Lease", "T") + paragraph("Rent", "H1") + paragraph("Amount", "H2") + paragraph("Due", "H2")
    text = parse(docx(body + paragraph("Term", "H1"), extra=PARTS), "a.docx").text
    assert text.split("\n\n") == ["# Lease", "## 1 Rent", "### 1.1 Amount", "### 1.2 Due", "## 2 Term"]


def test_list_items_keep_the_numbers_that_word_shows():
    body = item("a", 2) + item("b", 2) + item("deep", 3) + paragraph("Between.") + item("c", 2) + item("new", 2, 2)
    lines = parse(docx(body, extra=PARTS), "a.docx").text.split("\n")
    assert [line.strip() for line in lines if line] == ["(a) a", "(b) b", "i. deep", "Between.", "(c) c", "(e) new"]


def test_footnotes_have_the_label_of_their_reference():
    note = f'<w:footnotes {W}><w:footnote w:id="1">{paragraph("Net of tax.")}</w:footnote></w:footnotes>'
    body = '<w:p><w:r><w:t>Rent</w:t></w:r><w:r><w:footnoteReference w:id="1"/></w:r></w:p>'
    text = parse(docx(body + paragraph("Deposit"), extra={"word/footnotes.xml": note}), "a.docx").text
    assert text == "Rent[1]\n\n[1] Net of tax.\n\nDeposit"  # below the paragraph that refers to it


def test_merged_cells_of_a_word_table_are_repeated():
    wide, top, below = '<w:gridSpan w:val="2"/>', '<w:vMerge w:val="restart"/>', "<w:vMerge/>"
    rows = row(("City", ""), ("2024", wide)) + row(("", ""), ("Q1", ""), ("Q2", ""))
    rows = rows.replace("<w:tr>", "<w:tr><w:trPr><w:tblHeader/></w:trPr>")
    rows += row(("Rome", top), ("1", ""), ("2", "")) + row(("", below), ("3", ""), ("4", ""))
    assert parse(docx(f"<w:tbl>{rows}</w:tbl>"), "a.docx").text.split("\n") == [
        "| City: Rome | 2024 Q1: 1 | 2024 Q2: 2 |",
        "| City: Rome | 2024 Q1: 3 | 2024 Q2: 4 |",
    ]


@pytest.mark.parametrize("bold", [True, False])
def test_a_first_row_in_bold_is_the_header(bold):
    rows = table(("Name", "City"), ("Anna", "Rome"), ("Bob", "Oslo"))
    for name in ("Name", "City") if bold else ():
        rows = rows.replace(f"<w:t>{name}<", f"<w:rPr><w:b/></w:rPr><w:t>{name}<")
    expected = "| Name: Anna | City: Rome |" if bold else "| Anna: Rome |"
    assert expected in parse(docx(rows), "a.docx").text


@pytest.mark.parametrize("part", ["word/numbering.xml", "word/styles.xml"])
def test_damaged_rules_are_rejected_or_ignored(part):
    with pytest.raises(Exception, match="a damaged Word file"):
        parse(docx(paragraph("x"), extra={**PARTS, part: "<torn"}), "a.docx")


def test_simple_fields_keep_their_text():
    number = '<w:fldSimple w:instr="SEQ"><w:r><w:t>1</w:t></w:r></w:fldSimple>'
    body = f"<w:p><w:r><w:t>Table </w:t></w:r>{number}<w:r><w:t>: Prices</w:t></w:r></w:p>"
    assert parse(docx(body), "a.docx").text == "Table 1: Prices"


def test_carriage_returns_separate_words():
    assert parse(docx("<w:p><w:r><w:t>line</w:t><w:cr/><w:t>next</w:t></w:r></w:p>"), "a.docx").text.split() == [
        "line",
        "next",
    ]


def test_text_in_another_direction_and_below_ruby_text_is_kept():
    reading = (
        "<w:ruby><w:rt><w:r><w:t>kana</w:t></w:r></w:rt><w:rubyBase><w:r><w:t>kanji</w:t></w:r></w:rubyBase></w:ruby>"
    )
    body = "".join(f"<w:{tag}><w:r><w:t>{tag} </w:t></w:r></w:{tag}>" for tag in ("bdo", "dir"))
    assert parse(docx(f"<w:p>{body}<w:r>{reading}</w:r></w:p>"), "a.docx").text == "bdo dir kanji"


def test_text_boxes_are_read_once_whatever_their_form():
    box = f"<w:txbxContent>{paragraph('In a box')}</w:txbxContent>"
    drawing, picture = (
        f"<w:drawing><s:txbx>{box}</s:txbx></w:drawing>",
        f"<w:pict><v:textbox>{box}</v:textbox></w:pict>",
    )
    choice = f"<m:Choice>{drawing}</m:Choice>"
    forms = [
        drawing,
        f"<m:AlternateContent>{choice}</m:AlternateContent>",
        f"<m:AlternateContent>{choice}<m:Fallback>{picture}</m:Fallback></m:AlternateContent>",
        f"<m:AlternateContent>{choice}<m:Fallback><w:drawing/></m:Fallback></m:AlternateContent>",
    ]
    markup = "http://schemas.openxmlformats.org/markup-compatibility/2006"
    for form in forms:
        body = f'<w:p xmlns:m="{markup}" xmlns:s="s" xmlns:v="urn:schemas-microsoft-com:vml"><w:r>{form}</w:r></w:p>'
        for extra in ({}, PARTS):
            assert parse(docx(body + paragraph("After"), extra=extra), "a.docx").text == "In a box\n\nAfter", form


def test_equations_are_text():
    math = 'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'
    power = "<m:sSup><m:e><m:r><m:t>c</m:t></m:r></m:e><m:sup><m:r><m:t>2</m:t></m:r></m:sup></m:sSup>"
    fraction = "<m:f><m:num><m:r><m:t>a+b</m:t></m:r></m:num><m:den><m:r><m:t>2</m:t></m:r></m:den></m:f>"
    equation = f"<m:oMath {math}><m:r><m:t>E=m</m:t></m:r>{power}<m:r><m:t>+</m:t></m:r>{fraction}</m:oMath>"
    body = f"<w:p><w:r><w:t>It is </w:t></w:r>{equation}<w:r><w:t>.</w:t></w:r></w:p>"
    assert parse(docx(body), "a.docx").text == "It is E=mc^2+(a+b)/2."
    apart = f"<w:p><m:oMathPara {math}>{equation}</m:oMathPara></w:p>"
    assert parse(docx(apart), "a.docx").text == "E=mc^2+(a+b)/2"


def run(text, properties=""):
    return f"<w:r><w:rPr>{properties}</w:rPr><w:t>{text}</w:t></w:r>"


def test_hidden_and_deleted_text_is_left_out():
    style = '<w:style w:type="paragraph" w:styleId="H"><w:name w:val="Secret"/><w:rPr><w:vanish/></w:rPr></w:style>'
    styles = {"word/styles.xml": f"<w:styles {W}>{style}</w:styles>"}
    hidden = "<w:vanish/>", '<w:vanish w:val="true"/>', '<w:rStyle w:val="H"/>'
    shown = '<w:rStyle w:val="H"/><w:vanish w:val="0"/>', '<w:vanish w:val="false"/>'
    body = "".join(run("hidden", each) for each in hidden) + "".join(run("shown ", each) for each in shown)
    body = f"<w:p>{body}</w:p>" + paragraph("hidden", "H") + paragraph("end")
    document = parse(docx(body, extra=styles), "a.docx")
    assert (document.text, document.warning) == ("shown shown\n\nend", "Hidden text was left out.")
    changes = "<w:del><w:r><w:delText>old</w:delText></w:r></w:del><w:moveFrom><w:r><w:t>old</w:t></w:r></w:moveFrom>"
    changes += f"<w:moveTo>{run('moved ')}</w:moveTo><w:ins>{run('new')}</w:ins>"
    document = parse(docx(f"<w:p>{changes}</w:p>"), "a.docx")
    assert (document.text, document.warning) == ("moved new", "")


def test_the_marks_of_a_field_in_hidden_runs_are_kept():
    marks = [f'<w:r><w:rPr><w:vanish/></w:rPr><w:fldChar w:fldCharType="{kind}"/></w:r>' for kind in ("begin", "end")]
    field = f'{marks[0]}<w:r><w:rPr><w:vanish/></w:rPr><w:instrText> XE "Rent" </w:instrText></w:r>{marks[1]}'
    document = parse(docx(f"<w:p>{field}{run('Rent is due.')}</w:p>"), "a.docx")
    assert (document.text, document.warning) == ("Rent is due.", "")


def bold(text):
    return f"<w:p>{run(text, '<w:b/>')}</w:p>"


def blocks_of(body, **parts):
    return parse(docx(body, **parts), "a.docx").text.split("\n\n")


def test_a_short_paragraph_in_bold_above_text_is_a_heading():
    body = bold("Payment terms") + paragraph("You pay within 30 days.") + bold("Required documents") + item("Permit", 2)
    text = parse(docx(body, extra=PARTS), "a.docx").text
    assert text.split("\n\n") == [
        "## Payment terms",
        "You pay within 30 days.",
        "## Required documents",
        "(a) Permit",
    ]
    assert contexts_at(text, [text.index("30 days"), len(text)]) == [("Payment terms",), ("Required documents",)]


def test_a_numbered_paragraph_in_bold_is_a_heading_with_its_number():
    heading = item("Rent", 0).replace("<w:t>", "<w:rPr><w:b/></w:rPr><w:t>")
    again = item("Term", 0).replace("<w:t>", "<w:rPr><w:b/></w:rPr><w:t>")
    blocks = blocks_of(heading + paragraph("It is 940.") + again + paragraph("Two years."), extra=PARTS)
    assert blocks == ["## 1 Rent", "It is 940.", "## 2 Term", "Two years."]


def test_a_heading_in_bold_lies_below_the_last_one_with_a_style():
    body = paragraph("Lease", "T") + paragraph("Rent", "H1") + bold("Amount") + paragraph("It is 940.")
    blocks = blocks_of(body + bold("Due date") + paragraph("The third."), extra=PARTS)
    assert blocks == ["# Lease", "## 1 Rent", "### Amount", "It is 940.", "### Due date", "The third."]


@pytest.mark.parametrize(
    "body",
    [
        bold("Pay within 30 days.") + paragraph("No discount."),
        bold("Note:") + paragraph("No discount."),
        f"<w:p>{run('Note:', '<w:b/>')}{run(' no discount')}</w:p>" + paragraph("We never give any."),
        bold("Acme Ltd") + paragraph("12 High Street"),  # an address
        bold("Acme Ltd") + bold("Invoice") + table(("Item", "Price"), ("Cup", "3")),
        bold("x" * 101) + paragraph("No discount."),
        bold("2025") + paragraph("No discount."),
        bold("The end"),
        table(("Name",)).replace(paragraph("Name"), bold("Name") + paragraph("It is Bo.")),
    ],
)
def test_other_text_in_bold_is_no_heading(body):
    assert "#" not in parse(docx(body), "a.docx").text
