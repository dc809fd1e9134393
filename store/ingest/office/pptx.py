"""Parse PowerPoint files (.pptx) with python-pptx: a heading per slide, texts in reading order, tables and charts.

A slide is a page. Pictures and hidden slides are left out; the texts of SmartArt and the speaker's notes are kept.
"""

import io
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain, groupby
from typing import Any

from pptx import Presentation
from pptx.enum.shapes import PP_PLACEHOLDER
from pptx.oxml import parse_xml
from pptx.oxml.ns import qn
from pptx.oxml.xmlchemy import OxmlElement
from pptx.shapes.group import GroupShape

from store.ingest.archive import check_archive
from store.ingest.document import ParsedDocument, reading
from store.ingest.office.number_format import display
from store.ingest.tables import Merge, fill_merged, format_grid
from store.ingest.text import normalize, superscript
from store.limits import Limits
from store.markdown import LIST_ITEM, format_table

SLIDE_SEPARATOR = "\n\n"
LINE_PARTS = 40  # of a slide's height; shapes that begin in the same part are read from left to right
REPEATED = {PP_PLACEHOLDER.DATE, PP_PLACEHOLDER.FOOTER, PP_PLACEHOLDER.SLIDE_NUMBER, PP_PLACEHOLDER.HEADER}
BULLETED = {PP_PLACEHOLDER.BODY, PP_PLACEHOLDER.OBJECT, PP_PLACEHOLDER.VERTICAL_BODY, PP_PLACEHOLDER.VERTICAL_OBJECT}
MAX_DEPTH = 20  # of groups in groups
ALTERNATIVES = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
SIMILAR_CHARTS = {  # by kind that python-pptx does not read: one with the same series and categories that it does
    "area3DChart": "areaChart",
    "bar3DChart": "barChart",
    "line3DChart": "lineChart",
    "pie3DChart": "pieChart",
    "ofPieChart": "pieChart",
    "stockChart": "lineChart",
    "surfaceChart": "areaChart",
    "surface3DChart": "areaChart",
}


def parse_pptx(data: bytes, name: str, limits: Limits) -> ParsedDocument:
    """Return the slides as Markdown. Raises UnreadableDocument if damaged, DocumentTooLarge above a limit."""
    with reading(name, "PowerPoint file"):
        check_archive(data, name)
        presentation = Presentation(io.BytesIO(data))
        limits.check_pages(len(presentation.slides), name)
        slides: list[str] = []
        hidden = [number for number, slide in enumerate(presentation.slides, start=1) if _is_hidden(slide)]
        num_chars = 0
        for number, slide in enumerate(presentation.slides, start=1):
            text = "" if number in hidden else _read_slide(slide, number, presentation.slide_height or 1)
            slides.append(normalize(text).strip())
            num_chars += len(slides[-1]) + len(SLIDE_SEPARATOR)
            limits.check_characters(num_chars, name)
    starts = accumulate((len(slide) + len(SLIDE_SEPARATOR) for slide in slides[:-1]), initial=0)
    warning = ""
    if hidden:
        are = "slide was" if len(hidden) == 1 else "slides were"
        warning = f"{len(hidden)} hidden {are} left out: {', '.join(map(str, hidden))}."
    return ParsedDocument(SLIDE_SEPARATOR.join(slides), tuple(starts) if slides else (), warning)


def _is_hidden(slide: Any) -> bool:
    return slide._element.get("show") in ("0", "false")  # python-pptx has no public name for it


def _read_slide(slide: Any, number: int, height: int) -> str:
    _take_first_alternatives(slide.shapes._spTree)  # python-pptx has no public name for it
    title = slide.shapes.title
    text = " ".join(title.text_frame.text.split()) if title is not None else ""
    is_first = number == 1 and title is not None and title.placeholder_format.type == PP_PLACEHOLDER.CENTER_TITLE
    parts = [f"{'#' if text and is_first else '##'} {text or f'Slide {number}'}"]
    shapes = [shape for shape in slide.shapes if title is None or shape.shape_id != title.shape_id]
    parts += _read_shapes(shapes, height // LINE_PARTS)
    parts += _read_diagrams(slide)
    if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
        notes = slide.notes_slide.notes_text_frame.text.strip()
        parts += [f"Notes: {notes}"] if notes else []
    return "\n\n".join(filter(None, parts))


def _take_first_alternatives(shapes: Any) -> None:
    """Put shapes for newer versions in the place of alternatives, which python-pptx skips: texts with an equation."""
    for alternatives in list(shapes.iter(f"{ALTERNATIVES}AlternateContent")):
        if alternatives.getparent().tag in (qn("p:spTree"), qn("p:grpSp")):
            choice = alternatives.find(f"{ALTERNATIVES}Choice")
            for shape in () if choice is None else list(choice):
                alternatives.addprevious(shape)


def _read_shapes(shapes: Iterable[Any], line_height: int, depth: int = 0) -> Iterator[str]:
    """Yield the texts of shapes in reading order."""
    for shape in _in_order(shapes, max(line_height, 1)):
        if isinstance(shape, GroupShape):
            yield from _read_shapes(shape.shapes, line_height, depth + 1) if depth < MAX_DEPTH else ()
        elif shape.has_text_frame:
            kind = shape.placeholder_format.type if shape.is_placeholder else None
            if kind not in REPEATED:
                yield "\n".join(_read_paragraphs(shape.text_frame, is_list=kind in BULLETED))
        elif getattr(shape, "has_table", False):
            yield _read_table(shape.table)
        elif getattr(shape, "has_chart", False):
            yield _read_chart(shape.chart)


def _in_order(shapes: Iterable[Any], line_height: int) -> Iterator[Any]:
    """Yield shapes line by line and from left to right; headings side by side each with the text below it."""
    by_line = sorted(shapes, key=lambda shape: ((shape.top or 0) // line_height, shape.left or 0))
    lines = [list(line) for _, line in groupby(by_line, key=lambda shape: (shape.top or 0) // line_height)]
    lines.reverse()
    while lines:
        line = lines.pop()
        if lines and len(line) > 1 and _are_headings(line, lines[-1], line_height):
            line = list(chain.from_iterable(zip(line, lines.pop(), strict=True)))
        yield from line


def _are_headings(line: Sequence[Any], below: Sequence[Any], tolerance: int) -> bool:
    """Return whether a line has a heading for each higher shape of the next one."""
    return len(line) == len(below) and all(
        abs((one.left or 0) - (other.left or 0)) <= tolerance and (one.height or 0) < (other.height or 0)
        for one, other in zip(line, below, strict=True)
    )


def _read_paragraphs(frame: Any, is_list: bool) -> Iterator[str]:
    """Yield paragraphs, those of a list with their bullet or number."""
    paragraphs = [each for each in frame.paragraphs if each.text.strip()]
    numbers = Counter[int]()  # by level
    for paragraph in paragraphs:
        text, level = " ".join(_text_of(paragraph).split()), paragraph.level
        properties = paragraph._p.pPr  # python-pptx has no public name for bullets
        has = {tag for tag in ("buNone", "buChar", "buBlip", "buAutoNum") if _find(properties, tag) is not None}
        for deeper in [other for other in numbers if other > level]:
            del numbers[deeper]
        if "buAutoNum" in has:
            start = _find(properties, "buAutoNum").get("startAt", "1")
            numbers[level] = numbers[level] + 1 if level in numbers else int(start)
            yield f"{'  ' * level}{numbers[level]}. {text}"
        elif has & {"buChar", "buBlip"} or (is_list and "buNone" not in has and len(paragraphs) > 1):
            yield f"{'  ' * level}{text if LIST_ITEM.match(text) else f'- {text}'}"
        else:
            yield text


def _text_of(paragraph: Any) -> str:
    """Return a paragraph's text, with superscripts as such."""
    raised = {run._r for run in paragraph.runs if int(run.font._rPr.get("baseline", 0)) > 0}
    if not raised:
        return str(paragraph.text)
    return "".join(superscript(run.text) if run._r in raised else run.text for run in paragraph.runs)


def _find(properties: Any, tag: str) -> Any:
    return None if properties is None else properties.find(qn(f"a:{tag}"))


def _read_table(table: Any) -> str:
    grid = [[" ".join(cell.text.split()) for cell in row.cells] for row in table.rows]
    merges = [
        Merge(top, left, top + cell.span_height - 1, left + cell.span_width - 1)
        for top, row in enumerate(table.rows)
        for left, cell in enumerate(row.cells)
        if cell.is_merge_origin
    ]
    has_wide_header = any(merge.top == 0 and merge.left < merge.right for merge in merges)
    num_headers = (2 if has_wide_header else 1) if table.first_row and len(grid) > 1 + has_wide_header else None
    fill_merged(grid, merges, num_headers)
    return format_grid(grid, num_headers)


def _read_chart(chart: Any) -> str:
    """Return a chart's title, and its values as a table with a row per category."""
    title = " ".join(chart.chart_title.text_frame.text.split()) if chart.has_title else ""
    parts = [f"Chart: {title}" if title else "Chart"]
    _rename_charts(chart._chartSpace)  # python-pptx has no public name for it
    for plot in chart.plots:
        categories = [", ".join(labels) for labels in plot.categories.flattened_labels]
        columns = [
            [display(value, _number_format(series)) for value in series.values]  # none for a gap
            for series in plot.series
        ]
        categories = categories or _x_values(plot)
        rows = [
            [category, *(column[index] if index < len(column) else "" for column in columns)]
            for index, category in enumerate(categories)
        ]
        parts.append(format_table([["", *(series.name for series in plot.series)], *rows], has_header=True))
    return "\n".join(filter(None, parts))


def _rename_charts(chart_space: Any) -> None:
    """Turn charts of kinds that python-pptx refuses into similar ones."""
    for kind, similar in SIMILAR_CHARTS.items():
        for chart in list(chart_space.iter(qn(f"c:{kind}"))):
            renamed = OxmlElement(f"c:{similar}")
            renamed.extend(chart)
            chart.getparent().replace(chart, renamed)


def _number_format(series: Any) -> str:
    """Return the number format of a series' values; python-pptx has no public name for it."""
    values = chain.from_iterable(series._element.iterfind(qn(f"c:{name}")) for name in ("val", "yVal"))
    codes = (code.text for each in values for code in each.iter(qn("c:formatCode")))
    return next(filter(None, codes), "General")


def _x_values(plot: Any) -> list[str]:
    """Return the values on the first axis of a scatter chart."""
    for series in plot.series:
        return [value.text or "" for value in series._element.iterfind(f"{qn('c:xVal')}//{qn('c:v')}")]
    return []


def _read_diagrams(slide: Any) -> Iterator[str]:
    """Yield the texts of each SmartArt graphic, one per line."""
    for relation in slide.part.rels.values():
        if relation.reltype.endswith("/diagramData") and not relation.is_external:
            paragraphs = parse_xml(relation.target_part.blob).iter(qn("a:p"))
            texts = ("".join(part.text or "" for part in paragraph.iter(qn("a:t"))) for paragraph in paragraphs)
            yield "\n".join(f"- {text.strip()}" for text in texts if text.strip())
