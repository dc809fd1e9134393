"""Pictures and scans: their text in reading order, if text recognition is installed."""

import importlib.util
import io
import os

import pytest
from PIL import Image, ImageDraw, ImageFont

from store.errors import DocumentTooLarge, UnreadableDocument
from store.ingest import ocr, parse, parse_steps
from store.ingest.ocr.layout import Line, arrange, is_sideways
from store.limits import Limits
from tests.support.files import PICTURE, pdf

installed = pytest.mark.skipif(importlib.util.find_spec("rapidocr") is None, reason="needs requirements-ocr.txt")


def picture(*lines, size=(700, 260)):
    image = Image.new("RGB", size, "white")
    font = ImageFont.load_default(36)
    for index, line in enumerate(lines):
        ImageDraw.Draw(image).text((30, 30 + 90 * index), line, "black", font)
    return image


def saved(image, kind="PNG", **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def boxes(*rows, width=100, height=20):
    """Return lines, given the texts of each row with their left edges."""
    return [
        Line(left, 40.0 * top, left + width, 40.0 * top + height, text)
        for top, row in enumerate(rows)
        for left, text in row.items()
    ]


@installed
def test_a_picture_is_read_with_a_warning():
    document = parse(saved(picture("In the kitchen", "14 square metres")), "a.bin")
    assert document.text.split() == ["In", "the", "kitchen", "14", "square", "metres"]
    assert document.warning == "The text of 1 page was recognized (OCR) and may contain errors."
    assert os.environ["ORT_DISABLE_TELEMETRY"] == "1"


@installed
@pytest.mark.slow
@pytest.mark.parametrize("angle", [90, 180])
def test_pages_on_their_side_or_upside_down_are_turned(angle):
    image = picture("The first line here", "and a second line").rotate(angle, expand=True)
    assert [line for line in ocr.recognize(image) if line] == ["The first line here", "and a second line"]


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "TIFF", "WEBP"])
def test_each_picture_of_a_file_is_a_page(kind, monkeypatch):
    monkeypatch.setattr("store.ingest.ocr.image.available", lambda: True)
    monkeypatch.setattr("store.ingest.ocr.image.recognize", lambda image: [f"{image.width} pixels"])
    options = {"save_all": True, "append_images": [picture(size=(800, 100))]} if kind == "TIFF" else {}
    document = parse(saved(picture(), kind, **options), "a.bin")
    assert document.page_of(document.text.index("700")) == 1
    assert document.page_of(document.text.find("800")) == (2 if kind == "TIFF" else None)


@pytest.mark.parametrize(
    "data, done",
    [
        (pdf("alpha", "beta", "gamma"), [0, 1, 2, 3]),
        (pdf("alpha", "", "gamma", ""), [0, 1, 1, 2, 2, 3, 4]),  # the blank pages are recognized after the others
        (pdf("", ""), [0, 0, 0, 1, 2]),
        (saved(picture(), "TIFF", save_all=True, append_images=[picture()]), [0, 1]),
    ],
    ids=["text", "mixed", "scanned", "pictures"],
)
def test_progress_counts_the_pages_that_are_read(data, done, monkeypatch):
    for module in ("ocr", "ocr.image"):
        monkeypatch.setattr(f"store.ingest.{module}.available", lambda: True)
        monkeypatch.setattr(f"store.ingest.{module}.recognize", lambda image: ["recognized"])
    steps = list(parse_steps(data, "a.bin"))
    assert [step.done for step in steps] == done
    assert {(step.stage, step.total) for step in steps} == {("parsed", len(parse(data, "a.bin").page_starts))}


@installed
def test_chosen_pages_of_a_pdf_are_recognized():
    data = saved(picture("alpha page"), "PDF", save_all=True, append_images=[picture("beta page")])
    assert list(ocr.recognize_pdf_pages(data, [1])) == [["beta page"]]


@pytest.mark.parametrize(
    "size, found", [((1, 2000), (500, 2000)), ((9000, 3), (2000, 500)), ((250, 2000), (250, 2000))]
)
def test_narrow_pictures_get_space_beside_them(monkeypatch, size, found):
    sizes = []
    monkeypatch.setattr(ocr, "_engine", lambda: None)
    monkeypatch.setattr(ocr, "_find_lines", lambda engine, image: sizes.append(image.size) or [])
    monkeypatch.setattr(ocr, "_is_upside_down", lambda engine, image, lines: False)
    image = Image.new("RGB", size, "white")
    ImageDraw.Draw(image).rectangle((0, 0, size[0] // 2, size[1] // 2), "black")
    assert ocr.recognize(image) == [] and sizes == [found]


def test_a_blank_page_needs_no_models(monkeypatch):
    monkeypatch.setattr(ocr, "_engine", None)
    assert ocr.recognize(Image.new("RGB", (600, 800), "white")) == []


def test_a_page_that_cannot_be_drawn_does_not_hide_the_others(monkeypatch):
    monkeypatch.setattr(ocr, "available", lambda: True)
    monkeypatch.setattr(ocr, "recognize", lambda image: ["beta"])
    box = b"/MediaBox [0 0 612 792]"
    first, second, third, end = pdf("alpha", "", "").split(box)
    cropped = box.join([first, second + b"/CropBox  [700 900 800 999]" + third, end])  # the second one to nothing
    document = parse(cropped, "a.pdf")
    assert document.text.split() == ["alpha", "beta"] and "1 of 3 pages has no text" in document.warning


@installed
@pytest.mark.parametrize(
    "content, reason", [(PICTURE, "is a damaged picture"), (saved(picture()), "no text was found")]
)
def test_pictures_without_readable_text_are_rejected(content, reason):
    with pytest.raises(UnreadableDocument, match=reason):
        parse(content, "a.png")


@installed
def test_too_large_pictures_are_rejected_before_they_are_unpacked(monkeypatch):
    monkeypatch.setattr("store.ingest.ocr.image.MAX_PIXELS", 1000)
    with pytest.raises(DocumentTooLarge, match="over 1,000 pixels"):
        parse(saved(picture("x")), "a.png")


def test_without_text_recognition_the_message_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr("store.ingest.ocr.image.available", lambda: False)
    with pytest.raises(UnreadableDocument, match=r"pip install -r requirements-ocr\.txt"):
        parse(saved(picture("x")), "a.png")


def test_rows_of_cells_are_a_table_and_far_lines_are_paragraphs():
    rows = [{0: "Prices"}, {}, {0: "Item", 200: "Price", 400: "Tax"}, {0: "Cup", 200: "3", 400: "1"}]
    lines = arrange(boxes(*rows, {0: "Jug", 200: "5", 400: "2"}, {}, {0: "End"}))
    assert lines == ["Prices", "", "| Item: Cup | Price: 3 | Tax: 1 |\n| Item: Jug | Price: 5 | Tax: 2 |", "", "End"]


def test_columns_of_prose_are_read_one_after_the_other_below_a_common_heading():
    prose = [{0: f"l{index}", 400: f"r{index}"} for index in range(5)]
    heading = Line(0, -60, 700, -40, "heading")
    texts = [text for text in arrange([heading, *boxes(*prose, width=300)]) if text]
    assert texts == ["heading", *(f"l{index}" for index in range(5)), *(f"r{index}" for index in range(5))]


def test_lines_of_a_skewed_page_stay_in_order():
    cells = [("a", 0, 0), ("b", 400, 40), ("c", 0, 40), ("d", 400, 80)]  # each row sinks by as much as a line is high
    lines = [
        Line.from_corners([(x, y), (x + 100, y + 10), (x + 98, y + 30), (x, y + 20)], text) for text, x, y in cells
    ]
    assert [text for text in arrange(lines) if text] == ["a b", "c d"]


def test_a_page_is_on_its_side_if_most_lines_are_high():
    assert is_sideways([Line(0, 0, 20, 200, "abc"), Line(0, 0, 10, 12, "-")])
    assert not is_sideways([Line(0, 0, 200, 20, "abc")]) and not is_sideways([])


def test_only_so_many_pages_are_recognized(monkeypatch):
    recognized = []

    def read(data, indices):
        recognized.extend(indices)
        return (["beta"] for _ in indices)

    monkeypatch.setattr(ocr, "available", lambda: True)
    monkeypatch.setattr("store.ingest.ocr.image.available", lambda: True)
    monkeypatch.setattr(ocr, "recognize_pdf_pages", read)
    document = parse(pdf("alpha", "", "", ""), "a.pdf", Limits(max_ocr_pages=2))
    over = "1 scanned page was not read; the limit is 2 (--max-ocr-pages)."
    assert recognized == [1, 2] and document.warning.startswith(over) and "no text" not in document.warning
    pages = saved(picture("x"), "TIFF", save_all=True, append_images=[picture("y")])
    with pytest.raises(DocumentTooLarge, match=r"2 pages.* 1 for text recognition \(--max-picture-pages\)"):
        parse(pages, "a.tiff", Limits(max_picture_pages=1))


def test_the_limit_on_pages_is_not_for_pictures(monkeypatch):
    monkeypatch.setattr("store.ingest.ocr.image.available", lambda: True)
    monkeypatch.setattr("store.ingest.ocr.image.recognize", lambda image: ["alpha"])
    pages = saved(picture("x"), "TIFF", save_all=True, append_images=[picture("y")])
    assert len(parse(pages, "a.tiff", Limits(max_pages=1, max_picture_pages=2)).page_starts) == 2


def test_a_scan_above_the_limit_is_refused_with_the_limit(monkeypatch):
    monkeypatch.setattr(ocr, "available", lambda: True)
    monkeypatch.setattr(ocr, "recognize_pdf_pages", lambda data, indices: ([] for _ in indices))
    scan = pdf("", "", "")
    with pytest.raises(
        UnreadableDocument, match=r"no text layer\. 3 scanned pages were not read; the limit is 0 \(--max"
    ):
        parse(scan, "a.pdf", Limits(max_ocr_pages=0))
    with pytest.raises(UnreadableDocument, match=r"recognized on its pages\. 2 scanned pages .* limit is 1"):
        parse(scan, "a.pdf", Limits(max_ocr_pages=1))
    with pytest.raises(UnreadableDocument, match=r"recognized on its pages\. Pick"):
        parse(scan, "a.pdf", Limits(max_ocr_pages=3))
