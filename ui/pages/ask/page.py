"""The Ask page: a chat over the documents, with the passages and metrics of each answer."""

import json
import re
import tempfile
from collections.abc import Hashable, Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Any

import gradio as gr

from backend.interface.backend import Backend
from backend.interface.errors import user_message
from engine.request import Answer, RatioPreview, Request
from ui.components.sample_questions import SampleQuestions, SuggestedQuestions
from ui.components.uploads import Uploads
from ui.events import INSTANT, RUN_INGESTION, RUN_MODEL, Listeners, SessionTasks, Update, coalesce, session_of
from ui.format import short
from ui.html import Markup, error_box, fact, join, printable, tag
from ui.pages.ask.chat import Chat, Turn
from ui.pages.ask.composer import Composer
from ui.pages.ask.demonstration import DemonstrationPanel
from ui.pages.ask.feedback import FeedbackPanel
from ui.pages.ask.history import ChatHistory, render_chat_bar
from ui.pages.ask.passages import render_passages
from ui.pages.ask.results import NO_METRICS, Results, render_error, render_preview, render_turns, render_waiting
from ui.pages.lab.page import Lab

_TAGLINE = "Ask questions about your documents, on this machine. Read once, reused for every question."
_SERVED = "Ask questions about your documents."
_LEGEND = {
    tag("span", "Abc", class_="kv-plain"): "Reused: the keys and values (KV) of this text come from the cache.",
    tag("mark", "Abc", class_="kv-fresh"): "Recomputed for this question, because the method selected it.",
    tag("span", "1", class_="kv-cite"): "Source of this statement. Click it to read the passage.",
    tag("span", "memory", class_="kv-badge"): "Cache tier of the passage: memory, disk, or computed just now.",
}
_TIP = (
    "After an answer, open Answer settings and move Recompute % to preview another ratio: higher is closer to full "
    "prefill, lower is faster."
)
_WELCOME = join(
    tag("h2", "What the colours mean"),
    tag("dl", *(fact(example, meaning) for example, meaning in _LEGEND.items()), class_="kv-welcome-legend"),
    tag("p", _TIP, class_="kv-muted"),
)
LOADING_POLL_S = 0.2  # between two looks at the status while a question waits
_NO_QUESTION = error_box("Type a question first, then press Enter.")
_UNCHANGED = "Stopped; nothing was added to the chat."
_ANSWER_JS = "kvscopeAsk.connectAnswer(element, trigger); kvscopeAsk.markChat(element);"
_FOCUS_BOX_JS = "(chat) => { document.querySelector('#question textarea')?.focus(); return [chat]; }"
_CLEAR_BOX_JS = (  # keeps text typed in the meantime
    "(sent, box) => [JSON.parse(sent || null)?.answered === box ? '' : box]"
)


class Ask:
    """Runs at most one question per session. Sessions share this object; `tasks` is the only per-session state."""

    def __init__(self, backend: Backend, samples: Mapping[str, str]) -> None:
        self._backend = backend
        self._samples = samples
        self._methods = {method.name: method for method in backend.methods()}
        self.tasks = SessionTasks()

    def build(self, tab: gr.Tab) -> None:
        self.chat = gr.State(Chat(""))  # gets an id when the page is loaded
        self.pending_question = gr.State("")  # of the last click that started one; empty after one without a question
        self.carrier = gr.Textbox(visible="hidden", elem_id="carrier")  # between the browser's chats and the server
        with gr.Row(elem_id="ask-page", equal_height=False):
            with gr.Column(elem_id="main", min_width=0):
                self.chat_bar = gr.HTML(elem_id="chatbar", js_on_load="kvscopeChats.connect(element, trigger);")
                server = self._backend.outgoing_note
                about = f"{_SERVED} {server}" if server else _TAGLINE
                tagline = gr.HTML(tag("p", about, class_="kv-tagline"), elem_id="tagline", js_on_load=None)
                thread = gr.HTML(elem_id="thread", js_on_load=_ANSWER_JS)
                reply = gr.HTML(elem_id="reply", js_on_load=f"{_ANSWER_JS} kvscopeAsk.scrollToNew(element);")
                self.feedback = FeedbackPanel(self._backend)
                passages = gr.HTML(elem_id="passages", js_on_load="kvscopeAsk.showQuotes(element);")
                self.composer = Composer(self._backend, tab)
                self.replaces_last = self.composer.replaces_last
                with gr.Column(elem_id="welcome") as welcome:
                    self.demonstration = DemonstrationPanel(self._backend, tuple(self._samples.values()))
                    self._suggestions = SuggestedQuestions(self._backend, set(self._samples.values()))
                    self._sample_questions = SampleQuestions(self._backend, self._samples)
                    gr.HTML(_WELCOME, elem_id="welcome-legend", js_on_load=None)
            with gr.Column(elem_id="scope", min_width=0):
                gr.HTML(tag("h2", "Speed of this answer", title="Metrics of the last answer"), js_on_load=None)
                metrics = gr.HTML(NO_METRICS, elem_id="metrics", js_on_load=None)
                waterfall = gr.HTML(elem_id="waterfall", js_on_load=None)
                runs = gr.Plot(visible=False, show_label=False, container=False, buttons=[], elem_id="runs")
                download = gr.DownloadButton("Download trace (JSON)", size="sm", visible="hidden", elem_id="download")
                history = gr.HTML(elem_id="history", js_on_load=None)
        answer = gr.State(None)  # must have no change listener, or Gradio hashes all of it
        preview, feedback, rating_id = self.composer.preview, self.feedback.line, self.feedback.rating_id
        self.results = Results(
            answer,
            preview,
            thread,
            reply,
            feedback,
            rating_id,
            passages,
            metrics,
            waterfall,
            runs,
            download,
            history,
            tagline,
            welcome,
        )
        self.feedback.connect(reply, answer, self.chat)
        self.history = ChatHistory(
            self.chat,
            self.replaces_last,
            self.carrier,
            self.chat_bar,
            self.results,
            self.composer.picker,
            self.tasks.is_busy,
        )
        self._connect()

    def wire(self, page_loaded: Listeners, document_list: gr.HTML, documents_changed: Listeners) -> None:
        """Connect events from outside the page: its loading, and changes of the documents."""
        self.history.connect(page_loaded)
        self.composer.follow(documents_changed)
        self._sample_questions.follow(documents_changed)
        self._suggestions.follow(documents_changed)
        self.results.preview.input(**self._preview_event, trigger_mode="always_last")
        document_list.change(None, None, None, js="() => kvscopeAsk.refreshPreview()", **INSTANT)

    def link_to_lab(self, act: str, tabs: gr.Tabs, lab: Lab, part: str, run_button: str) -> None:
        """Let the button `act` below the answer send the question to a part of the Lab and press `run_button` there.

        A follow-up question is sent together with the questions it refers to. `run_button` is a CSS selector.
        """
        inputs = lab.question_inputs

        def send(chat: Chat) -> Update:
            if not chat.visible_turns:
                return gr.skip()
            last = chat.visible_turns[-1]
            update: Update = {
                inputs.question: chat.standalone_question(),
                inputs.picker.documents: inputs.picker.only_existing(last.scope),
                tabs: gr.Tabs(selected="lab"),
                lab.parts: gr.Tabs(selected=part),
            }
            return update | ({inputs.passages: last.best} if last.best else {})

        outputs = [inputs.question, inputs.passages, inputs.picker.documents, tabs, lab.parts]
        clicked = getattr(self.results.reply, act)(send, self.chat, outputs, **INSTANT)
        clicked.then(None, None, None, js=f"() => kvscopePress('{run_button}')", **INSTANT)

    def link_save(self, uploads: Uploads, document_list: gr.HTML) -> None:
        """Let the button `Save` below the answer add it to the documents, with its progress in `uploads`."""
        self._uploads = uploads
        outputs = [*uploads.progress_outputs(), document_list]
        self.results.reply.upload(self.save, self.chat, outputs, **RUN_INGESTION)

    def save(self, chat: Chat, request: gr.Request) -> Iterator[Update]:
        """Add the last answer to the documents, with its question and sources; yield its progress."""
        turn = chat.visible_turns[-1] if chat.visible_turns else None
        if turn is None or not turn.text or turn.stopped or turn.unverified:
            yield gr.skip()
            return

        def ingest(cancel: Event) -> Iterator[list[Any]]:
            with tempfile.TemporaryDirectory(prefix="kvscope-") as folder:
                path = Path(folder) / "answer.md"
                path.write_text(printable(turn.as_document()), encoding="utf-8")
                name = f"Answer: {short(printable(turn.question))}.md"
                yield from self._backend.ingest([(path, re.sub(r"[/\\]", "-", name))], cancel)  # not parts of a path

        yield from self._uploads.follow(ingest, request)

    def acknowledge(self, question: str, request: gr.Request) -> Update:
        """Start the session's task and show Stop before `respond`: on a small machine, prefill delays the browser."""
        session = session_of(request)
        if not question.strip() and not self.tasks.is_busy(session):
            return {self.pending_question: "", self.composer.message: _NO_QUESTION}
        if not question.strip() or self.tasks.start(session) is None:
            return gr.skip()  # the question that runs, or waits, stays pending
        self.demonstration.tasks.discard(session)  # its screen is about to be hidden
        return {
            self.pending_question: question,
            self.composer.message: "",
            self.results.reply: render_waiting(question),
            **self.composer.buttons.show(running=True),
        }

    def retry(self, chat: Chat, request: gr.Request) -> Update:
        """Acknowledge the last question again; its answer is replaced, and the question box is left alone."""
        if not chat.visible_turns:
            return {self.pending_question: ""}
        update = self.acknowledge(chat.visible_turns[-1].question, request)
        return {**update, self.replaces_last: True} if update.get(self.pending_question) else update

    def edit(self, chat: Chat) -> Update:
        """Copy the last question into the box; the next answer replaces its answer."""
        if not chat.visible_turns:
            return gr.skip()
        return {self.composer.question: chat.visible_turns[-1].question, self.replaces_last: True}

    def respond(
        self, question: str, chat: Chat, replaces_last: bool, request: gr.Request, *settings: Any
    ) -> Iterator[Update]:
        """Stream the answer to an acknowledged question. The computation is cancelled however this ends."""
        session = session_of(request)
        if not question or (cancel := self.tasks.take(session)) is None:
            yield gr.skip()  # the click started nothing; a generator without any update would clear every output
            return
        ended = {**self.composer.buttons.show(running=False), self.replaces_last: False}
        answer: Answer | None = None
        try:
            earlier = chat.without_last() if replaces_last else chat
            chat_request = self.composer.to_request(question, settings, earlier.recent_history())
            method = self._methods[chat_request.method]
            yield {
                **self.results.clear(earlier),
                self.results.reply: render_waiting(question),
                self.chat_bar: render_chat_bar(chat, None),
            }
            for message in self._loading_messages(cancel):
                yield {self.results.reply: render_waiting(question, message)}
            shown: Hashable = None
            can_answer = self._backend.status().ready or not cancel.is_set()
            answers = self._backend.ask(chat_request, cancel) if can_answer else iter(())
            for answer in coalesce(answers, _milestone):
                yield self.results.update(answer, method, milestone=_milestone(answer) != shown)
                shown = _milestone(answer)
            self.tasks.finish(session, cancel)
            if answer is None or (replaces_last and answer.state == "stopped" and not answer.text):
                # Nothing was generated that could replace the last answer.
                unchanged = self.results.show_chat(chat)
                yield {**unchanged, self.results.reply: render_error(question, _UNCHANGED), **ended}
                return
            extended = earlier.add(Turn.from_answer(answer, method))
            with tempfile.TemporaryDirectory(prefix="kvscope-") as folder:  # until Gradio has copied the trace file
                yield {
                    **self.results.finish(answer, method, extended, Path(folder)),
                    **self.history.save(extended, question if answer.state == "done" else None),
                    **ended,
                }
        except Exception as error:  # noqa: BLE001  UI boundary: every error becomes a message, bugs are logged
            self.tasks.finish(session, cancel)
            yield {
                self.results.thread: render_turns(chat.visible_turns),
                self.results.reply: render_error(question, user_message(error), answer),
                **ended,
            }
        finally:
            self.tasks.finish(session, cancel)

    def _loading_messages(self, cancel: Event) -> Iterator[str]:
        """Yield what loads, and how long still, until a question can be answered.

        End at once if loading failed or `cancel` is set.
        """
        seen: list[tuple[float, float]] = []  # times, and the progress then
        while not cancel.is_set():
            status = self._backend.status()
            is_empty = status.adding_samples and not self._backend.documents()
            if status.failed or (status.ready and not is_empty):
                return
            message = "adding the sample documents" if status.ready else status.message
            if status.progress is not None:
                seen.append((monotonic(), status.progress))
            yield f"Your question is next. First: {message}{_time_left(seen)}"
            cancel.wait(LOADING_POLL_S)

    def show_preview(self, answer: Answer | None, line: str, request: gr.Request, *settings: Any) -> Update:
        """Show what the last answer's method would recompute at the chosen ratio; nothing at the answer's own.

        Nothing is shown either if other passages may be read than for the answer. `line` is the line shown now.
        """
        if answer is None or self.tasks.is_busy(session_of(request)):
            return gr.skip()
        chosen = self.composer.to_request(answer.request.question, settings)
        ratio = chosen.recompute_ratio
        method = self._methods[answer.request.method]
        shown: RatioPreview | None = None
        new_line = Markup("")
        if answer.preview and ratio != answer.request.recompute_ratio and self._reads_the_same(answer, chosen):
            shown = answer.preview(ratio)
            new_line = render_preview(shown, ratio, answer, method)
        if not line and not new_line:
            return gr.skip()
        return {self.results.preview: new_line, self.results.passages: render_passages(answer, shown, ratio)}

    def _reads_the_same(self, answer: Answer, chosen: Request) -> bool:
        """Return whether a request differs from the answer's in no more than its ratio and how the text is decoded."""
        settings = attrgetter("method", "options", "passages", "documents", "whole_document")
        existing = {document.id for document in self._backend.documents()}
        return settings(chosen) == settings(answer.request) and all(
            source.document_id in existing for source in answer.sources
        )

    @property
    def _preview_event(self) -> dict[str, Any]:
        """The arguments of an event that calls `show_preview`."""
        shown = [self.results.preview, self.results.passages]
        inputs = [self.results.answer, self.results.preview, *self.composer.inputs()]
        limits = [(each.minimum, each.maximum) if isinstance(each, gr.Slider) else None for each in inputs]
        clamp = f"(...values) => kvscopeAsk.clamp(values, {json.dumps(limits)})"
        return {"fn": self.show_preview, "inputs": inputs, "outputs": shown, "js": clamp, **INSTANT}

    def _connect(self) -> None:
        box = self.composer
        reply = self.results.reply
        acknowledged = [self.pending_question, box.message, reply, *box.buttons]
        acknowledge: dict[str, Any] = {"fn": self.acknowledge, "inputs": box.question, "outputs": acknowledged}
        self._then_respond(gr.on([box.buttons.run.click, box.question.submit], **acknowledge, **INSTANT))
        for button in (*self._suggestions.buttons, *self._sample_questions.buttons.values()):
            filled = button.click(lambda text: text, button, box.question, **INSTANT)
            self._then_respond(filled.then(**acknowledge, **INSTANT))
        reply.edit(self.edit, self.chat, [box.question, self.replaces_last], js=_FOCUS_BOX_JS, **INSTANT)
        for html in (reply, self.results.preview):
            self._then_respond(html.retry(self.retry, self.chat, [*acknowledged, self.replaces_last], **INSTANT))
        settings: list[Any] = box.inputs()
        gr.on([each.change for each in settings], **self._preview_event, trigger_mode="always_last")
        box.buttons.stop.click(self.tasks.stop, None, None, **INSTANT)

    def _then_respond(self, event: Any) -> None:
        """After `event`, stream the answer, clear the question box, and let the browser store the chat."""
        box = self.composer
        inputs = [self.pending_question, self.chat, self.replaces_last, *box.inputs()]
        outputs = [self.chat, self.replaces_last, self.carrier, self.chat_bar, *self.results, *box.buttons]
        answered = event.then(self.respond, inputs, outputs, **RUN_MODEL)
        answered.then(**self._preview_event)  # settings may have been changed meanwhile
        sent = [self.carrier, box.question]
        self.history.then_store(answered.then(None, sent, box.question, js=_CLEAR_BOX_JS, **INSTANT))


def _time_left(seen: Sequence[tuple[float, float]]) -> str:
    """Return how long loading will take, from times in seconds and the progress then; empty if that is unknown."""
    if not seen:
        return ""
    (start, first), (now, progress) = seen[0], seen[-1]
    if progress <= first:
        return ""
    left_s = (now - start) * (1 - progress) / (progress - first)
    return f" (about {left_s:.0f} s left)" if left_s < 100 else f" (about {left_s / 60:.0f} min left)"


def _milestone(answer: Answer) -> Hashable:
    """Return what changes when more than the text must be redrawn."""
    return answer.state, len(answer.sources), answer.trace.ttft_ms is None, answer.draft is None
