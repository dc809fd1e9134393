"""Ingest, and questions asked during it."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from operator import attrgetter
from threading import Event, Thread
from time import sleep

import pytest

from backend.interface.session import SessionEvent
from backend.services import library as service
from engine.errors import Cancelled
from engine.passages import PassageCache
from engine.request import Request
from store.errors import StoreFull
from tests.support.doubles import TEXTS, last
from tests.support.fakes import WordEmbedder
from tests.support.files import pdf

ASK = Request("When does the Old Kestrel sail?", max_new_tokens=2)


def test_an_answer_names_the_files_that_are_still_being_added(start, tmp_path):
    backend = start()
    files = [tmp_path / f"{name}.txt" for name in TEXTS]
    for file, text in zip(files, TEXTS.values(), strict=True):
        file.write_text(text)

    def pending_note(request=ASK):
        return " ".join(note for note in last(backend.ask(request, Event())).notes if note.startswith("Not searched"))

    assert pending_note() == ""
    ingest = backend.ingest([(file, file.name) for file in files], Event())
    states = next(ingest)
    assert "ferry.txt, tern.txt, fares.txt and 1 more." in pending_note()
    while states[0].stage != "prefilled":
        states = next(ingest)
    note = pending_note()  # the first file is searchable; its KV is being computed
    assert files[0].name not in note and files[1].name in note
    assert pending_note(replace(ASK, documents=(backend.documents()[0].id,))) == ""  # it does not search the others
    ingest.close()
    assert pending_note() == ""


def test_documents_that_are_not_indexed_say_why_and_the_others_are(start, tmp_path):
    backend, cancelled = start(), Event()
    cancelled.set()
    files = {name: tmp_path / f"{name}.txt" for name in ("empty", "ferry", "tern")}
    for name, file in files.items():
        file.write_text(TEXTS.get(name, ""))

    def outcomes(states):
        *_, last_states = states
        return [(state.name, state.stage, state.message) for state in last_states]

    empty, ferry = outcomes(backend.ingest([(files[name], name) for name in ("empty", "ferry")], Event()))
    assert empty[:2] == ("empty", "failed") and "Pick a PDF" in empty[2]
    assert ferry == ("ferry", "done", "")
    (document,) = backend.documents()
    assert outcomes(backend.ingest([(files["tern"], "tern")], cancelled)) == [("tern", "failed", "Stopped.")]
    unchanged = "The document is unchanged."
    assert outcomes(backend.library.reindex([document.id, "gone"], cancelled)) == [
        ("ferry", "failed", f"Stopped. {unchanged}"),
        ("A deleted document", "failed", f"Stopped. {unchanged}"),
    ]
    gone, ferry = outcomes(backend.library.reindex(["gone", document.id], Event()))
    assert gone[1] == "failed" and gone[2].endswith(unchanged)
    assert ferry == ("ferry", "done", "")
    with backend.tasks.drain(0):
        (tern,) = outcomes(backend.ingest([(files["tern"], "tern")], Event()))
    assert tern == ("tern", "failed", "Stopped. The settings were changed; try again.")
    assert backend.documents() == [document]


def test_a_scan_is_stopped_between_two_pages(start, tmp_path, monkeypatch):
    backend, cancel, pages = start(), Event(), []
    monkeypatch.setattr("store.ingest.ocr.available", lambda: True)
    monkeypatch.setattr("store.ingest.ocr.recognize", lambda image: pages.append(image) or ["Ferry times"])
    scan = tmp_path / "scan.pdf"
    scan.write_bytes(pdf("", "", ""))
    shown = []
    for (state,) in backend.ingest([(scan, scan.name)], cancel):
        shown.append((state.stage, state.done, state.total))
        if state.done == 1:
            cancel.set()
    assert shown[-2:] == [("parsed", 1, 3), ("failed", 0, 1)] and state.message == "Stopped."
    assert len(pages) == 1 and backend.documents() == []


def test_a_question_interrupts_the_prefill_of_an_added_passage_which_is_then_repeated(start, tmp_path, monkeypatch):
    backend, warm, texts = start(), PassageCache.warm, []
    file = tmp_path / "ferry.txt"
    file.write_text(TEXTS["ferry"])

    def interrupted_once(passages, text, cancel):
        texts.append(text)
        if len(texts) == 1:
            with backend.tasks.track_question(Event()):
                assert cancel.is_set()
            raise Cancelled
        warm(passages, text, cancel)

    assert sum(tier.size_bytes for tier in backend.tier_usage()) == 0
    monkeypatch.setattr(PassageCache, "warm", interrupted_once)
    *_, states = backend.ingest([(file, file.name)], Event())
    assert [(state.stage, state.message) for state in states] == [("done", "")]
    assert len(texts) == 2 and texts[0] == texts[1]
    assert sum(tier.size_bytes for tier in backend.tier_usage()) > 0


@pytest.mark.parametrize(
    ("error", "message"),
    [(StoreFull("No space."), "No space. Free some"), (OSError(), "Something went wrong (OSError)")],
)
def test_a_document_whose_prefill_fails_is_in_the_library_and_says_so(start, tmp_path, monkeypatch, error, message):
    backend, file = start(), write(tmp_path / "ferry.txt", 3)

    def fail(*_):
        raise error

    monkeypatch.setattr(PassageCache, "warm", fail)
    *_, (state,) = backend.ingest([(file, file.name)], Event())
    assert state.stage == "done" and state.message.startswith(message)
    assert state.message.endswith("The document was added; its KV is computed when a question needs it.")
    assert [state.document_id] == [document.id for document in backend.documents()]
    *_, (state,) = attrgetter("library.reindex")(backend)([state.document_id], Event())
    assert state.stage == "done" and state.document_id and "unchanged" not in state.message


def test_a_copy_is_unchanged_and_only_the_first_deletion_deletes(start, tmp_path):
    backend, file = start(), write(tmp_path / "ferry.txt", 3)
    *_, states = backend.ingest([(file, "ferry.txt"), (file, "copy.txt")], Event())
    assert [(state.stage, state.unchanged) for state in states] == [("done", False), ("done", True)]
    assert states[0].document_id == states[1].document_id
    assert [backend.delete(states[0].document_id) for _ in range(2)] == [True, False]


def write(path, num_sentences):
    path.write_text(" ".join(f"Ferry {number} sails to Port Arden at noon." for number in range(num_sentences)))
    return path


def add(backend, file, session):
    *_, (state,) = backend.ingest([(file, file.name)], SessionEvent(session))
    return state.stage, state.message


def assert_nothing_is_pending(backend, *names):
    """These documents are all there is, in every index."""
    library = backend.loader.runtime.engine.finder
    assert {document.name for document in backend.documents()} == set(names)
    assert library._catalog.pending_owners() == [] and not library._claimed
    assert library._vectors.segment_counts() == dict(library._catalog.segment_counts().values())


def test_a_small_document_overtakes_a_large_one_and_a_cancelled_one_leaves_both(start, tmp_path, monkeypatch):
    embed = WordEmbedder.embed
    monkeypatch.setattr(WordEmbedder, "embed", lambda self, texts: sleep(0.02) or embed(self, texts))
    backend, finished, embedding, cancel = (
        start(chunk_size=64, chunk_overlap=0),
        [],
        [Event(), Event()],
        SessionEvent("two"),
    )

    def add_large(name, number, cancel):
        file = write(tmp_path / name, 60 + number)
        for (state,) in backend.ingest([(file, name)], cancel):
            if state.stage == "embedded":
                embedding[number].set()
        finished.append((name, state.stage, state.message))

    arguments = [("large.txt", 0, SessionEvent("one")), ("cancelled.txt", 1, cancel)]
    threads = [Thread(target=add_large, args=each, daemon=True) for each in arguments]
    for thread, event in zip(threads, embedding, strict=True):
        thread.start()
        assert event.wait(30)
    cancel.set()
    finished.append(("small.txt", *add(backend, write(tmp_path / "small.txt", 1), "three")))
    for thread in threads:
        thread.join(60)
    assert finished.index(("small.txt", "done", "")) < finished.index(("large.txt", "done", ""))
    assert ("cancelled.txt", "failed", "Stopped.") in finished
    assert_nothing_is_pending(backend, "large.txt", "small.txt")


def test_a_file_that_is_being_added_twice_is_added_even_if_the_first_time_is_cancelled(start, tmp_path, monkeypatch):
    backend, file, cancel, waiting = start(), write(tmp_path / "ferry.txt", 60), SessionEvent("one"), Event()
    monkeypatch.setattr(service, "sleep", lambda seconds: waiting.set())
    first = backend.ingest([(file, "first.txt")], cancel)
    while next(first)[0].stage != "embedded":
        pass
    with ThreadPoolExecutor(1) as pool:
        second = pool.submit(add, backend, file, "two")
        assert waiting.wait(30)
        cancel.set()
        assert next(first)[0].message == "Stopped."
        first.close()
        assert second.result(60) == ("done", "")
    assert_nothing_is_pending(backend, "ferry.txt")


def test_a_document_over_the_time_limit_leaves_no_trace_and_an_added_one_stays(start, tmp_path, monkeypatch):
    backend, file, now = start(ingest_timeout_minutes=2), write(tmp_path / "ferry.txt", 60), [0.0]
    monkeypatch.setattr("backend.runtime.ingest_queue.monotonic", lambda: now[0])

    def add_slowly(stage):
        for (state,) in backend.ingest([(file, file.name)], Event()):
            now[0] += 121 * (state.stage == stage)
        return state.stage, state.message

    for stage in ("parsed", "embedded"):
        ended, message = add_slowly(stage)
        assert ended == "failed" and message.startswith("Stopped after 2 minutes, the limit for one document. Split")
        assert_nothing_is_pending(backend)
    ended, message = add_slowly("prefilled")
    assert ended == "done" and message.startswith("Stopped after 2 minutes") and "The document was added" in message
    assert_nothing_is_pending(backend, file.name)
