"""The Library's search: the passages that match while words are typed, without an answer; Enter asks the question."""

from typing import Any

import gradio as gr

from backend.interface.backend import Backend
from backend.interface.errors import user_message
from engine.prompt.overlap import content_stems, stem
from engine.request import Request
from engine.text import WORD
from store.types import Hit
from ui.components.document_picker import DocumentPicker
from ui.components.document_text import Span, render_document_text
from ui.components.excerpt import match_badges, render_passage_card
from ui.components.inputs import BESIDE_BOX, question_box
from ui.events import INSTANT, QUIET, Listeners, Update
from ui.format import count
from ui.html import Markup, button, error_box, join, tag
from ui.pages.ask.composer import Composer

MAX_HITS = 10
_SEARCH: dict[str, Any] = {"concurrency_id": "search", "concurrency_limit": 2, "trigger_mode": "always_last", **QUIET}
_BOX = "Search the passages…"
_HINT = tag(
    "p",
    "Passages appear while you type, by meaning and by words, without a model. Enter asks the question.",
    class_="kv-muted",
)
_NONE = tag("p", "No passage was found. Add documents, or search in others.", class_="kv-muted")
_RESULTS_JS = "kvscopeAsk.connectAnswer(element, trigger); kvscopeAsk.showQuotes(element);"


class Search:
    """The part; it keeps nothing per session."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def build(self) -> None:
        with gr.Column(elem_id="search-page"):
            with gr.Row(elem_id="search-box", equal_height=False):
                self.question = question_box("Search", _BOX, "search-question")
                self._ask = gr.Button("Ask", variant="primary", elem_id="search-ask", **BESIDE_BOX)
                self.picker = DocumentPicker(self._backend, "search-where")
            self.results = gr.HTML(_HINT, elem_id="search-results", js_on_load=_RESULTS_JS)
        inputs = [self.question, self.picker.documents]
        for event in (self.question.input, self.picker.documents.change):
            event(self.find, inputs, self.results, **_SEARCH)

    def follow(self, documents_changed: Listeners) -> None:
        """Update the picker whenever the documents change."""
        self.picker.follow(documents_changed)

    def link_to_ask(self, tabs: gr.Tabs, composer: Composer) -> None:
        """Let Enter and the button send the question and its documents to the Ask page and run it there."""
        box, documents = composer.question, composer.picker.documents

        def send(question: str, selected: list[str]) -> Update:
            if not question.strip():
                return {box: gr.skip()}
            shown: Update = {tabs: gr.Tabs(selected="ask"), composer.replaces_last: False}
            return {box: question, documents: self.picker.only_existing(selected), **shown}

        inputs = [self.question, self.picker.documents]
        for event in (self.question.submit, self._ask.click):
            sent = event(send, inputs, [box, documents, tabs, composer.replaces_last], **INSTANT)
            sent.then(None, self.question, None, js="(text) => { if (text.trim()) kvscopePress('#ask'); }", **INSTANT)

    def find(self, question: str, selected: list[str] | None) -> Markup:
        """Return the passages for a question as it is, best first."""
        question = question.strip()
        if not any(map(str.isalnum, question)):
            return _HINT
        try:
            documents = tuple(self.picker.only_existing(selected))
            hits = self._backend.search(Request(question, passages=MAX_HITS, documents=documents))
        except Exception as error:  # noqa: BLE001  UI boundary: every error becomes a message, bugs are logged
            return error_box(user_message(error))
        return render_hits(question, hits)


def render_hits(question: str, hits: list[Hit]) -> Markup:
    """Return the passages as cards, with the words of the question highlighted."""
    if not hits:
        return _NONE
    stems = content_stems(question)
    title = tag("p", f"{count(len(hits), 'passage')}, the best match first", class_="kv-muted", role="status")
    cards = [_card(rank, question, hit, stems) for rank, hit in enumerate(hits, start=1)]
    return join(title, tag("ol", *cards, class_="kv-passages"))


def _card(rank: int, question: str, hit: Hit, stems: set[str]) -> Markup:
    chunk = hit.chunk
    name = f"Read passage {rank} in {chunk.document_name}"
    read = button("select", chunk.id, "Read in the document", data_rank=rank, data_context=question, aria_label=name)
    return render_passage_card(
        rank,
        chunk.document_name,
        f"page {chunk.page}" if chunk.page else f"passage {chunk.index + 1}",
        render_document_text(chunk.text, matching_words(chunk.text, stems)),
        tag("p", read),
        badges=tag("span", *match_badges(hit.similarity, hit.matched_words), class_="kv-badges"),
    )


def matching_words(text: str, stems: set[str]) -> list[Span]:
    """Return where the words of a text have one of the stems."""
    return [match.span() for match in WORD.finditer(text) if stem(match.group().lower()) in stems]
