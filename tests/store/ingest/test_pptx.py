"""PowerPoint files: a section per slide, texts in reading order, lists, tables, charts, diagrams and notes."""

import io
from copy import deepcopy

import pytest
from pptx import Presentation
from pptx.chart.data import CategoryChartData, XyChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.opc.package import Part
from pptx.opc.packuri import PackURI
from pptx.oxml import parse_xml
from pptx.oxml.ns import qn
from pptx.util import Cm

from store.errors import DocumentTooLarge
from store.ingest import parse
from store.ingest.office import pptx
from store.limits import DEFAULT_LIMITS, Limits

TITLE_SLIDE, BULLETS, TITLE_ONLY = 0, 1, 5
DIAGRAM = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/diagramData"


@pytest.fixture
def deck():
    return Presentation()


def test_too_many_slides_are_refused_before_they_are_read(deck, monkeypatch):
    for _ in range(3):
        add_slide(deck, TITLE_ONLY, "alpha")
    monkeypatch.setattr(pptx, "_read_slide", lambda *_: pytest.fail("a slide was read"))
    with pytest.raises(DocumentTooLarge, match=r"3 pages.* 2 \(--max-pages\)"):
        parsed(deck, Limits(max_pages=2))


def add_slide(deck, layout, title):
    slide = deck.slides.add_slide(deck.slide_layouts[layout])
    slide.shapes.title.text = title
    return slide


def add_text(shapes, text, left, top):
    shapes.add_textbox(Cm(left), Cm(top), Cm(5), Cm(1)).text_frame.text = text


def parsed(deck, limits=DEFAULT_LIMITS):
    file = io.BytesIO()
    deck.save(file)
    return parse(file.getvalue(), "a.pptx", limits)


def test_each_slide_is_a_page_below_the_title_of_the_first(deck):
    add_slide(deck, TITLE_SLIDE, "Plan")
    add_slide(deck, TITLE_ONLY, "Costs").notes_slide.notes_text_frame.text = "Ask Bo."
    add_slide(deck, TITLE_ONLY, "")
    document = parsed(deck)
    assert document.text == "# Plan\n\n## Costs\n\nNotes: Ask Bo.\n\n## Slide 3"
    assert [document.page_of(document.text.index(word)) for word in ("Plan", "Costs", "Slide 3")] == [1, 2, 3]


def test_hidden_slides_are_left_out_and_the_others_keep_their_number(deck):
    for title in ("Draft", "Plan", "Old", "Costs"):
        add_slide(deck, TITLE_ONLY, title)
    for index in (0, 2):
        deck.slides[index]._element.set("show", "0")
    document = parsed(deck)
    assert "Draft" not in document.text and "Old" not in document.text
    assert [document.page_of(document.text.index(word)) for word in ("Plan", "Costs")] == [2, 4]
    assert document.warning == "2 hidden slides were left out: 1, 3."


def test_texts_are_read_line_by_line_also_in_groups(deck):
    slide = add_slide(deck, TITLE_ONLY, "Order")
    add_text(slide.shapes, "third", 1, 9)
    add_text(slide.shapes, "second", 10, 5)
    add_text(slide.shapes.add_group_shape().shapes, "first", 1, 5.1)
    assert parsed(deck).text.split("\n\n")[1:] == ["first", "second", "third"]


def test_headings_side_by_side_are_read_with_the_text_below_them(deck):
    slide = add_slide(deck, TITLE_ONLY, "Plans")
    for left, name in ((1, "Basic"), (10, "Plus")):
        add_text(slide.shapes, name, left, 4)
        slide.shapes.add_textbox(Cm(left), Cm(6), Cm(5), Cm(4)).text_frame.text = f"{name} costs"
    assert parsed(deck).text.split("\n\n")[1:] == ["Basic", "Basic costs", "Plus", "Plus costs"]
    slide = add_slide(deck, TITLE_ONLY, "Labels")  # and their values, of the same height
    for top, line in ((4, ("Name", "Ann")), (6, ("Phone", "12"))):
        for left, text in zip((1, 10), line, strict=True):
            add_text(slide.shapes, text, left, top)
    assert parsed(deck).text.split("\n\n")[-4:] == ["Name", "Ann", "Phone", "12"]


def test_superscripts_are_no_digits_of_the_number_before_them(deck):
    paragraph = add_slide(deck, BULLETS, "Area").placeholders[1].text_frame.paragraphs[0]
    for text in ("25 m", "2", " of 10", "6"):
        paragraph.add_run().text = text
    for run in paragraph.runs[1::2]:
        run.font._rPr.set("baseline", "30000")
    assert parsed(deck).text.endswith("25 m\u00b2 of 10\u2076")


def test_lists_keep_levels_and_numbers(deck):
    frame = add_slide(deck, BULLETS, "List").placeholders[1].text_frame
    frame.text = "one\ntwo\nthree\nfour"
    frame.paragraphs[1].level = 1
    for paragraph in frame.paragraphs[2:]:
        number = paragraph._p.get_or_add_pPr().makeelement(qn("a:buAutoNum"), {"type": "arabicPeriod", "startAt": "3"})
        paragraph._p.pPr.append(number)
    assert parsed(deck).text.split("\n")[2:] == ["- one", "  - two", "3. three", "4. four"]


def test_merged_cells_of_a_table_are_repeated(deck):
    table = add_slide(deck, TITLE_ONLY, "T").shapes.add_table(3, 3, 0, 0, Cm(9), Cm(3)).table
    for row, texts in enumerate((("City", "2024", ""), ("", "Q1", "Q2"), ("Rome", "1", "2"))):
        for column, text in enumerate(texts):
            table.cell(row, column).text = text
    table.cell(0, 1).merge(table.cell(0, 2))
    assert parsed(deck).text.endswith("\n\n| City: Rome | 2024 Q1: 1 | 2024 Q2: 2 |")


def test_charts_are_tables_of_their_values(deck):
    data = CategoryChartData()
    data.categories = ["North", "South"]
    data.add_series("2023", (1.5, 2))
    data.add_series("2024", (3, None))
    shape = add_slide(deck, TITLE_ONLY, "C").shapes.add_chart(XL_CHART_TYPE.BAR_CLUSTERED, 0, 0, Cm(9), Cm(5), data)
    shape.chart.has_title = True
    shape.chart.chart_title.text_frame.text = "Sales"
    rows = "| North | 2023: 1.5 | 2024: 3 |\n| South | 2023: 2 |"
    assert parsed(deck).text.endswith(f"\n\nChart: Sales\n{rows}")


def test_values_of_charts_have_their_format_and_those_of_scatter_charts_both_axes(deck):
    data = CategoryChartData(number_format="0%")
    data.categories = ["North"]
    data.add_series("Share", (0.5,))
    add_slide(deck, TITLE_ONLY, "C").shapes.add_chart(XL_CHART_TYPE.PIE, 0, 0, Cm(9), Cm(5), data)
    points = XyChartData()
    series = points.add_series("Load")
    series.add_data_point(1, 2)
    series.add_data_point(3, 4)
    add_slide(deck, TITLE_ONLY, "S").shapes.add_chart(XL_CHART_TYPE.XY_SCATTER, 0, 0, Cm(9), Cm(5), points)
    text = parsed(deck).text
    assert "| North | Share: 50% |" in text and text.endswith("| 1 | Load: 2 |\n| 3 | Load: 4 |")


@pytest.mark.parametrize("kind", pptx.SIMILAR_CHARTS)
def test_charts_of_all_kinds_are_read(deck, kind):
    data = CategoryChartData()
    data.categories = ["North"]
    data.add_series("2024", (3,))
    chart = add_slide(deck, TITLE_ONLY, "C").shapes.add_chart(XL_CHART_TYPE.LINE, 0, 0, Cm(9), Cm(5), data).chart
    next(chart._chartSpace.iter(qn("c:lineChart"))).tag = qn(f"c:{kind}")
    assert parsed(deck).text.endswith("\n\nChart\n| North | 2024: 3 |")


def test_the_text_of_a_shape_with_an_alternative_for_older_versions_is_read_once(deck):
    slide = add_slide(deck, TITLE_ONLY, "Energy")
    add_text(slide.shapes, "Its mass gives it energy.", 1, 5)
    shape = slide.shapes[-1]._element
    xml = '<m:AlternateContent xmlns:m="{0}"><m:Choice Requires="a14"/><m:Fallback/></m:AlternateContent>'
    alternatives = parse_xml(xml.format(pptx.ALTERNATIVES[1:-1]))
    shape.addprevious(alternatives)
    choice, fallback = alternatives
    fallback.append(deepcopy(shape))
    choice.append(shape)
    assert parsed(deck).text == "## Energy\n\nIts mass gives it energy."


def test_texts_of_diagrams_are_kept(deck):
    slide = add_slide(deck, TITLE_ONLY, "D")
    main = "http://schemas.openxmlformats.org/drawingml/2006/main"
    xml = f'<d xmlns:a="{main}"><a:p><a:r><a:t>Plan</a:t></a:r></a:p><a:p><a:r><a:t>Do</a:t></a:r></a:p></d>'
    part = Part(PackURI("/ppt/diagrams/data1.xml"), "application/xml", slide.part.package, xml.encode())
    slide.part.relate_to(part, DIAGRAM)
    assert parsed(deck).text.endswith("\n\n- Plan\n- Do")
