"""A change of a file in a watched folder is undone in a real browser."""

import os
import time

import pytest
from playwright.sync_api import expect

from server.watched import WatchedFolders
from tests.browser.conftest import serve
from tests.support.page_checks import serious, too_wide
from ui.layout import App

pytestmark = pytest.mark.browser
NAME = "<img src=x onerror='window.harmed = 1'>.md"


@pytest.mark.slow  # tests/backend/test_watched_undo.py has it without a browser
def test_the_replaced_document_comes_back_and_the_file_stays_as_it_is(visit, backend, tmp_path):
    folder, data = tmp_path / "files", tmp_path / "data"
    folder.mkdir()
    data.mkdir()
    file = folder / NAME
    watched = WatchedFolders(backend, data, [folder])
    versions = []
    for age_s, text in ((60, "alpha"), (30, "alpha and more")):
        file.write_text(text)
        os.utime(file, (time.time() - age_s, time.time() - age_s))
        watched.scan()
        versions += [each.id for each in backend.documents()]
    first, _ = versions
    page = App(backend, watched=watched.status, undo=watched.undo).blocks
    try:
        tab = visit(serve(page, backend), viewport={"width": 390, "height": 844})
        tab.go("Library", "Documents")
        changes = tab.page.get_by_role("list", name="Last changes")
        expect(changes.get_by_role("listitem")).to_have_count(2)
        expect(changes).to_contain_text(f"{NAME} replaced its former version")
        assert serious(tab.page) == [] and too_wide(tab.page, "#library-list *") == []
        changes.get_by_role("button", name="Undo").click()
        expect(changes.get_by_role("listitem").first).to_contain_text("former version restored")
        expect(changes.get_by_role("button")).to_have_count(0)
        assert [(each.id, each.name) for each in backend.documents()] == [(first, NAME)]
        watched.scan()
        assert [each.id for each in backend.documents()] == [first] and file.read_text() == "alpha and more"
        assert tab.page.evaluate("window.harmed") is None and tab.errors == []
    finally:
        page.close()
