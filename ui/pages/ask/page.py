"""The Ask page: a chat over the documents, with the passages and metrics of each answer."""

import tempfile
from collections.abc import Hashable, Iterator, Mapping
from pathlib import Path
from threading import Event
from typing import Any

import gradio as gr

from backend.interface.backend import Backend
from backend.interface.errors import user_message
from engine.request import Answer, Request
from ui.cancellation import SessionTasks
from ui.components.document_picker import QuestionInputs
from ui.components.sample_questions import SampleQuestions
from ui.events import QUIET, RUN_MODEL, Update, session_of
from ui.html import error_box, tag
from ui.pages.ask import welcome
from ui.pages.ask.answer import ON_CLICK, render_error, render_waiting
from ui.pages.ask.chats import chat_bar
from ui.pages.ask.chats.chat import Chat
from ui.pages.ask.chats.turn import Turn
from ui.pages.ask.composer import Composer
from ui.pages.ask.history import ChatHistory
from ui.pages.ask.passage_drawer import PassageDrawer
from ui.pages.ask.passages import SHOW_QUOTED
from ui.pages.ask.results import NO_METRICS, Results, render_turns
from ui.throttle import coalesce

_NO_QUESTION = error_box("Type a question first, then press Enter.")
_UNCHANGED = "Stopped; nothing was added to the chat."
_FOCUS_BOX_JS = "(chat) => { document.querySelector('#question textarea')?.focus(); return [chat]; }"
_SCROLL_TO_ANSWER_JS = "() => document.querySelector('#reply')?.scrollIntoView({block: 'start'})"


class Ask:
    """Runs at most one question per session. Sessions share this object; `tasks` is the only per-session state.

    samples  example questions for an empty page, each with the name of the document that answers it
    """

    def __init__(self, backend: Backend, samples: Mapping[str, str]) -> None:
        self._backend = backend
        self._samples = samples
        self._methods = {method.name: method for method in backend.methods()}
        self.tasks = SessionTasks()

    def build(self, tab: gr.Tab) -> None:
        """Create the page's components inside its open tab and connect their events."""
        self.chat = gr.State(Chat(""))  # gets an id when the page is loaded
        self.pending_question = gr.State("")  # the running one: the box may hold the next question already
        self.replaces_last = gr.State(False)
        self.carrier = gr.JSON(visible="hidden", elem_id="carrier")  # between the browser's chats and the server
        with gr.Row(elem_id="ask-page", equal_height=False):
            with gr.Column(elem_id="main", min_width=0):
                self.chat_bar = gr.HTML(elem_id="chatbar", js_on_load=chat_bar.ON_CLICK)
                tagline = gr.HTML(welcome.render_tagline(), elem_id="tagline", js_on_load=None)
                thread = gr.HTML(elem_id="thread", js_on_load=ON_CLICK)
                reply = gr.HTML(elem_id="reply", js_on_load=ON_CLICK)
                passages = gr.HTML(elem_id="passages", js_on_load=SHOW_QUOTED)
                self.composer = Composer(self._backend)
                with gr.Column(elem_id="welcome", visible=True) as welcome_column:
                    self._sample_questions = SampleQuestions(self._backend, self._samples)
                    gr.HTML(welcome.render_legend(), elem_id="welcome-legend", js_on_load=None)
            with gr.Column(elem_id="scope", min_width=0):
                heading = tag("h2", "Speed of this answer", title="Metrics of the last answer")
                gr.HTML(heading, js_on_load=None)
                metrics = gr.HTML(NO_METRICS, elem_id="metrics", js_on_load=None)
                figure = gr.Plot(visible=False, show_label=False, container=False, buttons=[], elem_id="waterfall")
                download = gr.DownloadButton("Download trace (JSON)", size="sm", visible="hidden", elem_id="download")
                history = gr.HTML(elem_id="history", js_on_load=None)
        drawer = PassageDrawer(self._backend)
        drawer.follow(thread)
        drawer.follow(reply)
        self.results = Results(thread, reply, passages, metrics, figure, download, history)
        self.history = ChatHistory(
            chat=self.chat,
            replaces_last=self.replaces_last,
            carrier=self.carrier,
            bar=self.chat_bar,
            results=self.results,
            welcome=[tagline, welcome_column],
            is_busy=self.tasks.is_busy,
        )
        self._connect()

    def wire(self, page: gr.Blocks, document_list: gr.HTML) -> None:
        """Connect events from outside the page: its loading, and the sidebar's list of documents."""
        self.history.connect(page)
        self.composer.scope.follow(document_list)
        self._sample_questions.follow(document_list)

    def link_to_page(self, act: str, tabs: gr.Tabs, tab_id: str, inputs: QuestionInputs, run_button: str) -> None:
        """Let a button below the answer send the question to another page and run it there.

        A follow-up question is sent together with the questions it refers to.

        act         `data-act` of the button
        inputs      the other page's inputs
        run_button  CSS selector of the other page's run button
        """

        def send(chat: Chat) -> Update:
            if not chat.visible_turns:
                return {}
            last = chat.visible_turns[-1]
            update: Update = {
                inputs.question: chat.standalone_question(),
                inputs.picker.documents: inputs.picker.only_existing(last.scope),
                tabs: gr.Tabs(selected=tab_id),
            }
            return update | ({inputs.passages: last.best} if last.best else {})

        outputs = [inputs.question, inputs.passages, inputs.picker.documents, tabs]
        clicked = getattr(self.results.reply, act)(send, self.chat, outputs, queue=False, **QUIET)
        clicked.then(None, None, None, js=f"() => kvscopePress('{run_button}')", queue=False, **QUIET)

    def begin(self, question: str, request: gr.Request) -> Update:
        """Acknowledge the click before the model is free; does nothing while the session is busy."""
        session = session_of(request)
        if not question.strip():
            return gr.skip() if self.tasks.is_busy(session) else {self.composer.message: _NO_QUESTION}
        if not self.tasks.start(session):
            return gr.skip()
        return {
            self.composer.message: "",
            self.pending_question: question,
            self.results.reply: render_waiting(question),
            **self._buttons(running=True),
        }

    def retry(self, chat: Chat, request: gr.Request) -> Update:
        """Begin with the last question again; its answer will be replaced, and the question box is left alone."""
        update = self.begin(chat.visible_turns[-1].question, request) if chat.visible_turns else gr.skip()
        return {**update, self.replaces_last: True} if self.pending_question in update else update

    def edit(self, chat: Chat) -> Update:
        """Copy the last question into the box; the next answer replaces its answer."""
        if not chat.visible_turns:
            return gr.skip()
        return {self.composer.question: chat.visible_turns[-1].question, self.replaces_last: True}

    def respond(
        self, question: str, chat: Chat, replaces_last: bool, request: gr.Request, *settings: Any
    ) -> Iterator[Update]:
        """Stream the answer to the question that has begun. The computation is cancelled however this ends.

        settings  the values of the composer's inputs
        """
        session = session_of(request)
        cancel = self.tasks.claim(session)
        if cancel is None:  # the click started nothing
            yield gr.skip()  # a generator without any update would clear every output
            return
        answer: Answer | None = None
        try:
            earlier = chat.without_last() if replaces_last else chat
            chat_request = self.composer.to_request(question, settings, earlier.recent_history())
            yield self._started(chat, earlier)
            for snapshot, update in self._stream(chat_request, cancel):
                answer = snapshot
                yield update
            self.tasks.finish(session, cancel)
            if answer is None or (replaces_last and answer.state == "stopped" and not answer.text):
                yield self._unchanged(question, chat)
            else:
                yield from self._finished(question, answer, earlier)
        except Exception as error:  # noqa: BLE001  UI boundary: every error becomes a message, bugs are logged
            self.tasks.finish(session, cancel)
            yield self._failed(question, chat, user_message(error), answer)
        finally:
            self.tasks.finish(session, cancel)

    def stop(self, request: gr.Request) -> None:
        """Cancel the session's running question."""
        self.tasks.stop(session_of(request))

    def _started(self, chat: Chat, earlier: Chat) -> Update:
        return {
            **self.results.clear(earlier),
            **self._buttons(running=True),
            **self.history.show_welcome(False),
            **self.history.show_busy(chat),
        }

    def _stream(self, request: Request, cancel: Event) -> Iterator[tuple[Answer, Update]]:
        """Yield snapshots of the answer, each with its view."""
        method = self._methods[request.method]
        last_milestone: Hashable = None
        for answer in coalesce(self._backend.ask(request, cancel), _milestone):
            yield answer, self.results.update(answer, method, milestone=_milestone(answer) != last_milestone)
            last_milestone = _milestone(answer)

    def _finished(self, question: str, answer: Answer, earlier: Chat) -> Iterator[Update]:
        """Add the turn to the chat and show it; the trace file exists until Gradio has copied it."""
        method = self._methods[answer.request.method]
        chat = earlier.add(Turn.from_answer(answer, method))
        with tempfile.TemporaryDirectory(prefix="kvscope-") as folder:
            yield {
                **self.results.finish(answer, method, chat, Path(folder)),
                **self.history.save(chat, question if answer.state == "done" else None),
                **self._buttons(running=False),
                self.replaces_last: False,
            }

    def _unchanged(self, question: str, chat: Chat) -> Update:
        """Show the chat as before, because nothing was generated that could replace its last answer."""
        return {
            **self.results.show_chat(chat),
            self.results.reply: render_error(question, _UNCHANGED),
            **self.history.show_welcome(not chat.turns),
            **self._buttons(running=False),
            self.replaces_last: False,
        }

    def _failed(self, question: str, chat: Chat, message: str, answer: Answer | None) -> Update:
        return {
            self.results.thread: render_turns(chat.visible_turns),
            self.results.reply: render_error(question, message, answer.text if answer else ""),
            **self._buttons(running=False),
            self.replaces_last: False,
        }

    def _connect(self) -> None:
        box = self.composer
        acknowledged = [self.pending_question, self.results.reply, box.message, box.ask_button, box.stop_button]
        begin: dict[str, Any] = {"fn": self.begin, "inputs": box.question, "outputs": acknowledged, "queue": False}
        self._then_respond(gr.on([box.ask_button.click, box.question.submit], **begin, **QUIET))
        for text, button in self._sample_questions.buttons.items():
            filled = button.click(lambda text=text: text, None, box.question, queue=False, **QUIET)
            self._then_respond(filled.then(**begin, **QUIET))
        edited = [box.question, self.replaces_last]
        self.results.reply.edit(self.edit, self.chat, edited, js=_FOCUS_BOX_JS, queue=False, **QUIET)
        retried = [*acknowledged, self.replaces_last]
        self._then_respond(self.results.reply.retry(self.retry, self.chat, retried, queue=False, **QUIET))
        box.stop_button.click(self.stop, None, None, queue=False, **QUIET)

    def _then_respond(self, event: Any) -> None:
        box = self.composer
        inputs = [self.pending_question, self.chat, self.replaces_last, *box.inputs()]
        outputs = [*self.results.components(), *self.history.components(), box.ask_button, box.stop_button]
        scrolled = event.then(None, None, None, js=_SCROLL_TO_ANSWER_JS, queue=False, **QUIET)
        answered = scrolled.then(self.respond, inputs, outputs, **RUN_MODEL)
        self.history.then_save(answered, box.question)

    def _buttons(self, running: bool) -> Update:
        box = self.composer
        return {box.ask_button: gr.Button(visible=not running), box.stop_button: gr.Button(visible=running)}


def _milestone(answer: Answer) -> Hashable:
    """Return what changes when more than the text must be redrawn."""
    return answer.state, len(answer.sources), answer.trace.ttft_ms is None
