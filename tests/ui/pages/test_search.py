"""The Library's search without a browser: hits, highlighted words, filters, errors, and sending the question to Ask."""

import pytest

from engine.prompt.overlap import content_stems
from store.types import Chunk, Document, Hit
from ui.pages.search import matching_words, render_hits

TEXT = "The ferry to Brom leaves at 9:40. Ferries carry 120 cars, and <b>bikes</b>."


def hit(text=TEXT, page=None, similarity=0.5, name="a & b.md"):
    return Hit(Chunk("c" * 64 + "-0", "c" * 64, name, 3, page, 0, len(text), text), 1.0, similarity, True)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("When does a ferry leave?", ["ferry", "leaves"]),
        ("120", ["120"]),
        ("the", []),
        ("", []),
    ],
)
def test_forms_of_the_words_that_matter_are_found(query, expected):
    assert [TEXT[start:end] for start, end in matching_words(TEXT, content_stems(query))] == expected


def test_cards_are_text_with_their_words_marked_and_say_where_they_are():
    html = render_hits("<i>ferry</i>", [hit(), hit(page=7, similarity=None)])
    assert "<b>" not in html and "<i>" not in html and "&lt;b&gt;bikes" in html and "a &amp; b.md" in html
    assert '<em class="kv-quoted">ferry</em>' in html
    assert "passage 4" in html and "page 7" in html and "0.50" in html and html.count("kv-number") == 1


def test_the_request_has_the_words_and_the_documents_that_still_exist(app, backend, monkeypatch):
    backend.stored_documents = [Document("d" * 64, "d.md", 1, None, 1, 1.0)]
    asked = []
    monkeypatch.setattr(backend, "search", lambda request: asked.append(request) or [hit()])
    assert "1\u00a0passage, the best match first" in app.search.find("  ferry ", ["d" * 64, "gone"])
    assert (asked[0].question, asked[0].documents, asked[0].passages) == ("ferry", ("d" * 64,), 10)


@pytest.mark.parametrize("question", ["", " ", "?!"])
def test_nothing_is_searched_before_there_is_a_letter(app, backend, monkeypatch, question):
    monkeypatch.setattr(backend, "search", lambda request: pytest.fail("searched"))
    assert "Passages appear while you type" in app.search.find(question, None)


def test_an_empty_library_and_an_error_are_sentences(app, backend, monkeypatch):
    backend.texts = []
    assert "No passage was found" in app.search.find("ferry", [])

    def fail(request):
        raise RuntimeError("secret")

    monkeypatch.setattr(backend, "search", fail)
    html = app.search.find("ferry", [])
    assert "kv-error" in html and "secret" not in html
