"""Pages of a scan take seconds each: adding it can be stopped between two of them."""

import pytest

from tests.store.document_library.test_library import NOTHING, add, count_rows
from tests.support.files import pdf


@pytest.mark.parametrize("steps, recognized", [(1, 0), (4, 0), (5, 1), (6, 2)])  # pages are opened, then recognized
def test_a_scan_closed_between_two_pages_leaves_no_trace(
    steps, recognized, open_library, file_of, tmp_path, monkeypatch
):
    pages = []
    monkeypatch.setattr("store.ingest.ocr.available", lambda: True)
    monkeypatch.setattr("store.ingest.ocr.recognize", lambda image: pages.append(image) or ["heron"])
    library, path = open_library(), file_of(pdf("", "", ""), "scan.pdf")
    adding = library.add(path, path.name)
    for _ in range(steps):
        step = next(adding)
    assert (step.stage, step.done, step.total, len(pages)) == ("parsed", recognized, 3, recognized)
    adding.close()
    assert count_rows(tmp_path) == NOTHING and len(pages) == recognized
    assert add(library, path)[-1].document.num_pages == 3
