"""What is written in the form fields of a PDF is read, and does not keep a scan from being recognized."""

from store.ingest import ocr, parse
from tests.support.files import drawn_pdf

LABEL = "BT /F1 12 Tf 72 724 Td (Name of the tenant:) Tj ET"
FIELD = "BT /F1 12 Tf 2 4 Td (Ada Lovelace) Tj ET"


def test_the_value_of_a_field_is_read_on_its_line():
    assert parse(drawn_pdf(LABEL, field=FIELD), "a.pdf").text == "Name of the tenant: Ada Lovelace"


def test_a_scanned_form_is_recognized_as_a_whole(monkeypatch):
    monkeypatch.setattr(ocr, "available", lambda: True)
    monkeypatch.setattr(ocr, "recognize", lambda image: ["Name of the tenant: Ada Lovelace"])
    document = parse(drawn_pdf("0 0 100 100 re f", field=FIELD), "a.pdf")
    assert document.text == "Name of the tenant: Ada Lovelace" and document.recognized_pages == 1
