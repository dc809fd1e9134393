"""Files are read in a process of its own: with the same result, and no way to hurt the application."""

import subprocess
import sys
import time

import psutil
import pytest

from store.errors import DocumentTooLarge, UnreadableDocument
from store.ingest import isolated, parse, worker
from store.ingest.document import ParsedDocument, finish
from store.ingest.isolated import parse_isolated
from store.limits import Limits
from tests.support.files import docx, paragraph, pdf

FILES = {
    "notes.md": b"# Ferry\n\nThe ferry sails on Fridays.",
    "notes.txt": "Die Fähre fährt freitags. \U0001f6a2".encode(),
    "table.csv": b"boat,seats\nTern,12\n",
    "page.html": b"<h1>Ferry</h1><p>It sails on Fridays.</p>",
    "letter.docx": docx(paragraph("The ferry sails on Fridays.")),
    "pages.pdf": pdf("The ferry sails.", "It sails on Fridays."),
}


def is_running(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize("name", FILES)
def test_the_result_is_that_of_reading_in_this_process(name):
    assert finish(parse_isolated(FILES[name], name)) == parse(FILES[name], name)


@pytest.mark.parametrize(("data", "name"), [(b"\x7fELF", "a.txt"), (b"%PDF-1.4 torn", "b.pdf"), (b"", "c.txt")])
def test_errors_are_those_of_reading_in_this_process(data, name):
    with pytest.raises(UnreadableDocument) as expected:
        parse(data, name)
    with pytest.raises(UnreadableDocument) as found:
        finish(parse_isolated(data, name))
    assert str(found.value) == str(expected.value)


@pytest.mark.parametrize(
    ("name", "limits", "message"),
    [
        ("pages.pdf", Limits(max_pages=1), "--max-pages"),
        ("pages.pdf", Limits(max_characters=20), "--max-characters"),
        ("notes.md", Limits(max_characters=20), "--max-characters"),
    ],
)
def test_the_limits_are_passed_on(name, limits, message):
    with pytest.raises(DocumentTooLarge, match=message):
        finish(parse_isolated(FILES[name], name, limits))


@pytest.mark.parametrize(
    ("answer", "message"),
    [("text='long', page_starts=[]", "--max-characters"), ("text='', page_starts=[0, 0, 0]", "too many pages")],
)
def test_a_worker_cannot_exceed_the_limits(monkeypatch, answer, message):
    use_worker(monkeypatch, f"say({answer}, warning='', recognized_pages=0)")
    with pytest.raises(DocumentTooLarge, match=message):
        finish(parse_isolated(b"", "pages.pdf", Limits(max_characters=3, max_pages=2, max_picture_pages=2)))


PAGES = """
import json, os, signal, sys, time
request = json.loads(sys.stdin.readline())
def say(**answer):
    print(json.dumps(answer), flush=True)
for page in range(3):
    say(done=page, total=3, num_pages=3)
    if page == 1 and page not in request["skipped_pages"]:
        HARM
pages = ["First.", "" if 1 in request["skipped_pages"] else "Second.", "Third."]
say(text=" ".join(pages), page_starts=[0, 7, 8], warning="", recognized_pages=0)
"""

ANSWER = "import json, os; print(json.dumps(dict(text=TEXT, page_starts=[], warning='', recognized_pages=0)))"


def use_worker(monkeypatch, harm, program=PAGES):
    monkeypatch.setattr(isolated, "COMMAND", (sys.executable, "-c", program.replace("HARM", harm)))


@pytest.mark.parametrize(
    "harm",
    [
        "os.kill(os.getpid(), signal.SIGSEGV)",
        "os._exit(3)",
        "say(failure='MemoryError'); time.sleep(60)",
        "say(text=1); time.sleep(60)",
        "print('{', flush=True); time.sleep(60)",
        "time.sleep(60)",
    ],
    ids=["crash", "exit", "memory", "wrong answer", "no JSON", "hang"],
)
def test_a_page_at_which_the_process_ends_is_left_out(monkeypatch, harm):
    if harm == "time.sleep(60)":
        monkeypatch.setattr(isolated, "STEP_TIMEOUT_S", 2.0)
    use_worker(monkeypatch, harm)
    document = finish(parse_isolated(b"", "pages.pdf"))
    assert document == ParsedDocument("First.  Third.", (0, 7, 8))


@pytest.mark.parametrize(
    ("harm", "error", "message"),
    [
        (
            "os.kill(os.getpid(), signal.SIGSEGV)",
            UnreadableDocument,
            r"a.txt cannot be read: its reader crashed \(SIGSEGV\)",
        ),
        ("os.kill(os.getpid(), signal.SIGXCPU)", DocumentTooLarge, "takes more than 60 minutes of computing"),
        ("say(failure='KeyError')", UnreadableDocument, r"its reader failed \(KeyError\)"),
        ("say(failure='MemoryError')", DocumentTooLarge, "takes more memory than a document may.* Split the file"),
        ("say(error='DocumentTooLarge', message='Too long.')", DocumentTooLarge, "Too long. Split"),
        ("say(error='SystemExit', message='x')", UnreadableDocument, r"wrong answer \(KeyError\)"),
        ("time.sleep(60)", DocumentTooLarge, "takes more than 1 seconds"),
        ("print('x' * 5000, flush=True)", UnreadableDocument, "wrong answer"),
    ],
)
def test_other_ends_are_errors_that_name_the_reason(monkeypatch, harm, error, message):
    if harm == "time.sleep(60)":
        monkeypatch.setattr(isolated, "STEP_TIMEOUT_S", 1.0)
    monkeypatch.setattr(isolated, "OUTPUT_BYTES", 900)
    use_worker(
        monkeypatch,
        harm,
        PAGES.replace("for page in range(3)", "for page in [1]").replace("num_pages=3", "num_pages=0"),
    )
    with pytest.raises(error, match=message):
        finish(parse_isolated(b"", "a.txt", Limits(max_characters=1, max_pages=1)))


def test_pages_are_left_out_a_few_times_only(monkeypatch):
    use_worker(
        monkeypatch,
        "pass",
        PAGES.replace("pages = ", "os._exit(1)\npages = ").replace(
            "range(3)", "range(len(request['skipped_pages']) + 1)"
        ),
    )
    with pytest.raises(UnreadableDocument, match="ended early"):
        finish(parse_isolated(b"", "pages.pdf"))


def test_closing_the_steps_ends_a_busy_process(monkeypatch, tmp_path):
    pid_file = tmp_path / "pid"
    use_worker(monkeypatch, f"open({str(pid_file)!r}, 'w').write(str(os.getpid())); time.sleep(60)")
    monkeypatch.setattr(isolated, "POLL_S", 0.05)
    steps = parse_isolated(b"", "pages.pdf")
    while not (pid_file.exists() and pid_file.read_text()):
        next(steps)  # repeated while it is busy
    steps.close()
    assert not is_running(int(pid_file.read_text()))


def test_a_file_that_is_not_read_to_its_end_is_no_obstacle(monkeypatch):
    use_worker(monkeypatch, "", ANSWER.replace("TEXT", "'a'"))
    assert finish(parse_isolated(bytes(10**7), "a.txt")).text == "a"


def test_the_process_sees_no_keys(monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "secret")
    use_worker(monkeypatch, "", ANSWER.replace("TEXT", "' '.join(os.environ)"))
    assert "HF_TOKEN" not in finish(parse_isolated(b"", "a.txt")).text


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have not all limits")
@pytest.mark.parametrize(
    ("code", "output"),
    [
        ("bytearray(worker.MEMORY_BYTES)", "MemoryError"),
        ("open(FILE, 'w').write('x' * 10000)", "OSError"),
        ("print(resource.getrlimit(resource.RLIMIT_CPU)[0])", str(worker.CPU_SECONDS)),
    ],
)
def test_a_worker_has_limits(tmp_path, code, output):
    program = f"FILE = {str(tmp_path / 'written')!r}\nimport resource\nfrom store.ingest import worker\n"
    program += (
        f"worker.set_limits(worker.MEMORY_BYTES)\ntry:\n    {code}\nexcept Exception as e: print(type(e).__name__)"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert output in found.stdout, found


READS_A_SLOW_FILE = """
from store.ingest.document import finish
from store.ingest.isolated import parse_isolated
from store.limits import Limits
from tests.support.files import docx
finish(parse_isolated(docx("<w:p/>" * 700_000), "slow.docx"))
"""


def test_a_process_has_limits_and_ends_with_an_application_that_is_killed():
    with subprocess.Popen([sys.executable, "-c", READS_A_SLOW_FILE]) as application:
        deadline, children = time.monotonic() + 30, []
        while not children and time.monotonic() < deadline:
            children = psutil.Process(application.pid).children()
            time.sleep(0.05)
        (child,) = children
        time.sleep(1.0)  # it has read the request and is parsing
        assert is_running(child.pid)
        if sys.platform == "linux":
            assert child.rlimit(psutil.RLIMIT_AS)[0] == worker.MEMORY_BYTES
            assert child.rlimit(psutil.RLIMIT_FSIZE) == (0, 0)
        application.kill()
    while is_running(child.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_running(child.pid)
