"""The journey of a user with two documents: the real app in a process of its own, the bundled model, a real browser."""

import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.support.ports import free_port

ROOT = Path(__file__).parent.parent.parent
pytestmark = [pytest.mark.browser, pytest.mark.embedded]
LONG_MS = 120_000
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}  # the browser needs a core, too: two threads wait for each other
QUESTION = "Which key opens the boathouse in Nether Wallop?"
KEYS = "# Keys\n\nThe brass key number 4417 opens the boathouse in Nether Wallop. It hangs in the harbour office.\n"
FAQ = "A return ticket to Skerrin is valid for 30 days from the first crossing."  # short: a page takes ten seconds


class App:
    """`python app.py` on one data folder."""

    def __init__(self, data: Path, port: int = 0) -> None:
        self.port = port or free_port()
        self.url, self.log = f"http://127.0.0.1:{self.port}/", data.parent / f"app-{self.port}.log"
        command = [sys.executable, "app.py", "--port", str(self.port), "--data", str(data)]
        command += ["--no-sample-docs", "--no-idle-calibration"]  # tests/e2e adds them; they take half a minute
        with self.log.open("w") as log:
            self.process = subprocess.Popen(command, cwd=ROOT, env=ONE_THREAD, stdout=log, stderr=subprocess.STDOUT)

    def wait(self) -> None:
        """Wait until the page answers."""
        for _ in range(180):
            assert self.process.poll() is None, self.log.read_text()[-2000:]
            try:
                urllib.request.urlopen(self.url, timeout=2).close()
            except OSError:
                time.sleep(0.5)
            else:
                return
        raise AssertionError(self.log.read_text()[-2000:])

    def end(self, how: int = signal.SIGTERM) -> None:
        self.process.send_signal(how)
        self.process.wait(60)


@pytest.fixture(scope="module")
def data(models, tmp_path_factory):
    folder = tmp_path_factory.mktemp("app") / "data"
    folder.mkdir()
    (folder / "models").symlink_to(models)
    return folder


@pytest.fixture(scope="module")
def app(data):
    """The first tests use it, the last kills it."""
    started = App(data)
    started.wait()
    yield started
    if started.process.poll() is None:
        started.end()


def ready(tab):
    expect(tab.page.locator("#status")).to_contain_text("SmolLM2-135M-Instruct", timeout=LONG_MS)


def add(tab, folder, documents):
    """Upload documents; those that are there already stay."""
    paths = [folder / name for name in documents]
    for path in paths:
        path.write_text(documents[path.name])
    tab.page.set_input_files("#upload input[type=file]", paths)
    for name in documents:
        expect(tab.page.locator("#document-list")).to_contain_text(name, timeout=LONG_MS)


def answer(tab):
    tab.ask(QUESTION)
    tab.finish(LONG_MS)
    expect(tab.page.locator("#question textarea")).to_have_value("")  # it is cleared after the answer


def test_upload_ask_and_move_the_slider(app, visit, tmp_path):
    tab = visit(app.url)
    ready(tab)
    add(tab, tmp_path, {"keys.md": KEYS, "faq.txt": FAQ})

    answer(tab)
    expect(tab.page.locator("#passages")).to_contain_text("4417")
    expect(tab.page.locator(".kv-passage mark").first).to_be_visible()
    expect(tab.page.locator("#waterfall")).to_contain_text("Recompute")
    expect(tab.page.locator("#history")).to_contain_text("20 %")

    tab.move_ratio(0)
    answer(tab)
    expect(tab.page.locator("#history tbody tr")).to_have_count(2)
    expect(tab.page.locator(".kv-passage mark")).to_have_count(0)

    assert tab.errors == [] and tab.outside == []


def test_cite_inspect_compare_evict_and_delete(app, visit):
    """The other pages' main ways, on what the test before has left."""
    tab = visit(app.url)
    ready(tab)
    tab.ask("What is the capital of Australia?")
    expect(tab.page.locator(".kv-quote-source").last).to_be_visible()  # the closest quotes with their sources
    answer(tab)
    tab.page.locator("#reply .kv-cite").first.click()
    expect(tab.page.locator("#drawer mark")).to_be_in_viewport()
    tab.page.keyboard.press("Escape")

    tab.page.click("#reply .kv-acts >> text=Inspect")
    expect(tab.page.locator("#inspect-results")).to_be_visible(timeout=LONG_MS)
    share = tab.page.inner_text("#inspect-summary strong")
    tab.move("#inspect-ratio", 60)
    expect(tab.page.locator("#inspect-summary strong")).not_to_have_text(share)

    tab.go("Lab", "Speed and answers")
    tab.page.fill("#lab-question textarea", QUESTION)
    tab.page.click("#compare-more > button")
    tab.page.get_by_label("Once").check()
    tab.page.click("#compare-run")
    expect(tab.page.locator("#compare-downloads")).to_be_visible(timeout=LONG_MS)
    expect(tab.page.locator("#comparison tbody tr").first).to_contain_text("Full prefill")
    expect(tab.page.locator("#answers")).to_contain_text("4417")
    with tab.page.expect_download() as download:
        tab.page.click("#download-csv")
    assert "4417" in Path(download.value.path()).read_text()

    tab.go("Library", "Cache details")
    tab.page.locator("#cache-list button").first.click()
    tab.page.get_by_role("button", name="Evict…").click()
    tab.page.locator("#cache-detail .kv-danger").click()
    expect(tab.page.locator("#cache-detail")).to_contain_text("no longer in the cache")

    tab.go("Library", "Documents")
    row = tab.page.locator("#library-list tr", has_text="faq.txt")
    row.locator("button[data-act=delete]").click()
    tab.page.locator("#library-list .kv-confirm-delete").get_by_text("Delete", exact=True).click()
    expect(row).to_have_count(0)
    expect(tab.page.locator("#document-list")).not_to_contain_text("faq.txt")
    assert tab.errors == [] and tab.outside == []


@pytest.mark.slow  # tests/store and tests/e2e kill and restart without a browser
def test_after_a_kill_during_an_answer_everything_is_there_and_passages_come_from_disk(app, data, visit, tmp_path):
    tab = visit(app.url)
    ready(tab)
    add(tab, tmp_path, {"keys.md": KEYS})
    answer(tab)
    tab.ask(f"{QUESTION} Where does it hang?")
    app.end(signal.SIGKILL)
    readable = [path for path in [data, *data.rglob("*")] if not path.is_symlink() and path.stat().st_mode & 0o077]
    assert readable == []  # by other users

    again = App(data, app.port)
    try:
        again.wait()
        expect(tab.page.locator("#stop")).to_be_hidden(timeout=LONG_MS)  # the page has loaded itself again
        ready(tab)
        expect(tab.page.locator("#question textarea")).to_have_value(f"{QUESTION} Where does it hang?")
        expect(tab.page.locator("#thread")).to_contain_text("4417")  # the browser has the chat
        expect(tab.page.locator("#document-list")).to_contain_text("keys.md", timeout=LONG_MS)
        answer(tab)
        expect(tab.page.locator("#passages")).to_contain_text("4417")
        expect(tab.page.locator("#passages")).to_contain_text("disk")
        assert tab.outside == []
    finally:
        again.end()
