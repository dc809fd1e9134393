"""Pictures of PDF pages: where a quote is marked, and what a page that cannot be drawn gives."""

import io
import sys
import time

import numpy as np
import pytest
from PIL import Image

from store.ingest import page_picture as isolated
from store.ingest.page_picture import page_picture
from store.ingest.pdf.picture import MARK, MAX_PIXELS, draw_page, find_pieces
from tests.support.files import drawn_pdf, pdf

PAGE = "Model Weight Fuse\nAlpha 151 kg 20 A\nBeta 94 kg 20 A\nThe tank is emp-\ntied by hand. See below."


def marked(picture):
    """Return left, top, right and bottom of the marked pixels, as parts of the picture."""
    pixels = np.array(picture)
    rows, columns = np.nonzero((pixels == MARK).all(axis=2))
    height, width, _ = pixels.shape
    return columns.min() / width, rows.min() / height, columns.max() / width, rows.max() / height


def found(quote, page=PAGE):
    return [page[start:end] for start, end in find_pieces(page, quote)]


def test_a_quote_is_marked_on_its_line():
    picture = draw_page(pdf("First line.\nThe spare key hangs here.\nThe last line."), 0, "The spare key hangs here.")
    left, top, right, bottom = marked(picture)
    assert left == pytest.approx(72 / 612, abs=0.01) and 0.3 < right < 0.4
    baseline = (792 - 720 + 14) / 792
    assert baseline - 12 / 792 < top < baseline < bottom < baseline + 6 / 792


@pytest.mark.parametrize("rotate", [0, 90, 180, 270])
def test_on_a_turned_page_the_mark_is_on_the_text(rotate):
    data = drawn_pdf("BT /F1 20 Tf 100 600 Td (Only line) Tj ET", rotate=rotate)
    dark = np.nonzero(np.array(draw_page(data, 0, "").convert("L")) < 100)
    left, top, right, bottom = marked(picture := draw_page(data, 0, "only line"))
    width, height = picture.size
    assert left * width <= dark[1].min() and dark[1].max() <= right * width + 1
    assert top * height <= dark[0].min() and dark[0].max() <= bottom * height + 1


def test_a_quote_is_found_in_spite_of_line_breaks_and_hyphens():
    assert found("The tank is emptied by hand.") == ["The tank is emp-\ntied by hand"]


def test_cells_are_found_without_their_headers():
    assert found("Model: Alpha; Weight: 151 kg; Fuse: 20 A") == ["Model", "Alpha", "Weight", "151 kg", "Fuse", "20 A"]


def test_of_what_is_there_twice_the_one_in_the_row_is_meant():
    page = f"Profit fell to 38.9 from 44.2. {'More text. ' * 20}\nSales 98.1 97.3\nProfit 38.9 41.7"
    row = [page[start:] for start, _ in find_pieces(page, "Profit | 2024: 38.9 | 2023: 41.7")]
    assert row == ["Profit 38.9 41.7", "38.9 41.7", "41.7"]


@pytest.mark.parametrize("quote", ["", "  ", "...", "Not on this site", "20 A"])
def test_nothing_is_marked_if_there_is_nothing_to_find(quote):
    assert found(quote) == []


def test_a_huge_page_gives_a_picture_of_limited_size():
    data = drawn_pdf("").replace(b"[0 0 612 792]", b"[0 0 9 9000]")
    picture = draw_page(data, 0, "")
    assert picture.width * picture.height <= MAX_PIXELS * 1.05  # sides are rounded up


def test_a_process_of_its_own_draws_the_page():
    data = pdf("One.", "The spare key hangs here.")
    drawn = Image.open(io.BytesIO(page_picture(data, 1, "spare key")))
    assert np.array_equal(np.array(drawn), np.array(draw_page(data, 1, "spare key")))
    assert page_picture(data, 2, "") is None
    assert page_picture(b"%PDF-1.4 torn", 0, "") is None


def test_a_process_that_hangs_or_sends_something_else_gives_no_picture(monkeypatch):
    monkeypatch.setattr(isolated, "TIMEOUT_S", 0.5)
    for code in ("import time; time.sleep(60)", "print('no picture')", "while True: print('x' * 99999)"):
        monkeypatch.setattr(isolated, "COMMAND", (sys.executable, "-c", code))
        start = time.monotonic()
        assert page_picture(pdf("One."), 0, "") is None
        assert time.monotonic() - start < 30
