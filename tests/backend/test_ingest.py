"""Ingest, and questions asked during it."""

from dataclasses import replace
from threading import Event

from engine.errors import Cancelled
from engine.passages import PassageCache
from engine.request import Request
from tests.support.doubles import TEXTS, last
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
