"""The rating of an answer: good or bad, and what would have been right."""

import secrets
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import gradio as gr

from backend.interface.backend import Backend
from backend.interface.errors import user_message
from engine.request import Answer
from engine.text import CITATION_MARK
from store.errors import KVScopeError
from store.feedback import RatedPassage, Rating
from ui.events import INSTANT
from ui.html import Markup, button, error_box, join, tag
from ui.pages.ask.chat import Chat

MAX_EXPECTED_CHARS = 2000
_CONNECT_JS = "kvscopeAsk.connectFeedback(element, trigger);"
_DELETED = "A document of this answer was deleted, so the rating is not saved."
_WHERE = "It is kept in the data folder with the passages; the Library page exports all ratings."
_EXPECTED = "What would have been right?"


class FeedbackPanel:
    """The line below an answer that appears when it is rated."""

    def __init__(self, backend: Backend) -> None:
        """Create the line inside the open Blocks."""
        self._backend = backend
        self.line = gr.HTML(elem_id="feedback", js_on_load=_CONNECT_JS)

    def connect(self, reply: gr.HTML, answer: gr.State, chat: gr.State) -> None:
        """Connect the buttons of the answer, of which `answer` is the State, and those of the line."""
        reply.like(self.rate, [answer, chat], self.line, **INSTANT)
        self.line.click(self.change, None, self.line, **INSTANT)

    def rate(self, answer: Answer | None, chat: Chat, event: gr.EventData) -> Markup | str:
        """Save a rating of the answer on the screen, and return the line."""
        if answer is None or not chat.visible_turns:
            return ""
        rating = Rating(
            id=secrets.token_hex(8),
            at=time.time(),
            question=chat.standalone_question(),
            answer=" ".join(CITATION_MARK.sub(" ", answer.text).split()),
            is_good=event._data.get("id") == "good",
            method=answer.request.method,
            passages=tuple(RatedPassage(source.document_id, source.text) for source in answer.sources),
        )
        documents = {document.id for document in self._backend.documents()}
        if not documents.issuperset(passage.document_id for passage in rating.passages):
            return error_box(_DELETED)
        return self._saved(rating)

    def change(self, event: gr.EventData) -> Markup | str:
        """Withdraw a rating, or add what would have been right."""
        data: Mapping[str, Any] = event._data
        rating = next((each for each in self._backend.feedback.ratings() if each.id == data.get("id")), None)
        if rating is None:
            return ""
        if data.get("act") == "undo":
            try:
                self._backend.feedback.remove(rating.id)
            except KVScopeError as error:
                return error_box(str(error))
            return ""
        return self._saved(replace(rating, expected=str(data.get("text") or "").strip()[:MAX_EXPECTED_CHARS]))

    def _saved(self, rating: Rating) -> Markup:
        try:
            self._backend.feedback.put(rating)
        except Exception as error:  # noqa: BLE001  the UI's boundary
            return error_box(user_message(error))
        return render_rating(rating)


def render_rating(rating: Rating) -> Markup:
    """Return the line about a saved rating, with a box for the right answer if it was bad and none is known yet."""
    verdict = "good" if rating.is_good else "bad"
    text = f"Saved as a {verdict} answer{', with the right one' if rating.expected else ''}."
    saved = tag("span", text, title=_WHERE, role="status")
    undo = button("undo", rating.id, "Undo")
    if rating.is_good or rating.expected:
        return tag("p", saved, " ", undo)
    box = tag("input", type="text", placeholder=_EXPECTED, aria_label=_EXPECTED, maxlength=MAX_EXPECTED_CHARS)
    return join(tag("p", saved, " ", undo), tag("p", box, button("expected", rating.id, "Save")))
