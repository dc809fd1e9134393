"""The rating of an answer: good or bad, and what would have been right."""

import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any

import gradio as gr

from backend.interface.backend import Backend
from backend.interface.errors import user_message
from engine.request import Answer
from engine.text import CITATION_MARK
from store.feedback import RatedPassage, Rating
from ui.events import INSTANT, Update
from ui.html import Markup, button, error_box, join, printable, tag
from ui.pages.ask.chat import Chat

MAX_TEXT_CHARS = 2000  # of what a browser sends
_CONNECT_JS = "kvscopeAsk.connectFeedback(element, trigger);"
_DELETED = "A document of this answer was deleted, so the rating is not saved."
_SHARED = "Everyone who uses this library can export it, with the question and the passages."
_EXPECTED = "What would have been right?"


class FeedbackPanel:
    """The line below an answer that appears when it is rated; `rating_id` is the rating of the answer on the screen."""

    def __init__(self, backend: Backend) -> None:
        """Create the line inside the open Blocks."""
        self._backend = backend
        self.line = gr.HTML(elem_id="feedback", js_on_load=_CONNECT_JS)
        self.rating_id = gr.State("")

    def connect(self, reply: gr.HTML, answer: gr.State, chat: gr.State) -> None:
        """Connect the buttons of the answer, of which `answer` is the State, and those of the line."""
        outputs = [self.line, self.rating_id]
        reply.like(self.rate, [answer, chat, self.rating_id], outputs, **INSTANT)
        self.line.click(self.change, self.rating_id, outputs, **INSTANT)

    def rate(self, answer: Answer | None, chat: Chat, rating_id: str, event: gr.EventData) -> Update:
        """Save a rating of the answer on the screen, in place of an earlier one."""
        if answer is None or not chat.visible_turns:
            return {self.line: ""}
        rating = Rating(
            id=rating_id or secrets.token_hex(8),
            at=time.time(),
            question=chat.standalone_question()[-MAX_TEXT_CHARS:],
            answer=" ".join(CITATION_MARK.sub(" ", answer.text).split()),
            is_good=event._data.get("id") == "good",
            method=answer.request.method,
            passages=tuple(RatedPassage(source.document_id, source.text) for source in answer.sources),
        )

        def save() -> Markup:
            self._backend.feedback.put(rating)
            documents = {document.id for document in self._backend.documents()}
            if documents.issuperset(passage.document_id for passage in rating.passages):
                return render_rating(rating)
            self._backend.feedback.remove(rating.id)
            return error_box(_DELETED)

        return {self.line: _attempt(save), self.rating_id: rating.id}

    def change(self, rating_id: str, event: gr.EventData) -> Update:
        """Withdraw the rating of the answer on the screen, or add what would have been right."""
        data: Mapping[str, Any] = event._data
        feedback = self._backend.feedback

        def withdraw() -> Markup:
            feedback.remove(rating_id)
            return Markup("")

        def expect() -> Markup:
            changed = feedback.expect(rating_id, printable(data.get("text") or "").strip()[:MAX_TEXT_CHARS])
            return render_rating(changed) if changed else Markup("")

        return {self.line: _attempt(withdraw if data.get("act") == "undo" else expect)}


def _attempt(action: Callable[[], Markup]) -> Markup:
    try:
        return action()
    except Exception as error:  # noqa: BLE001  the UI's boundary
        return error_box(user_message(error))


def render_rating(rating: Rating) -> Markup:
    """Return the line about a saved rating, with a box for the right answer if it was bad and none is known yet."""
    verdict = "good" if rating.is_good else "bad"
    text = f"Saved as a {verdict} answer{', with the right one' if rating.expected else ''}. {_SHARED}"
    saved = tag("span", text, role="status")
    undo = button("undo", "", "Undo")
    if rating.is_good or rating.expected:
        return tag("p", saved, " ", undo)
    box = tag("input", type="text", placeholder=_EXPECTED, aria_label=_EXPECTED, maxlength=MAX_TEXT_CHARS)
    return join(tag("p", saved, " ", undo), tag("p", box, button("expected", "", "Save")))
