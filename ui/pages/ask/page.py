"""The Ask page: a chat over the documents; each answer with its passages and its numbers."""

import tempfile
from collections.abc import Hashable, Iterator, Mapping
from pathlib import Path
from typing import Any

import gradio as gr

from backend.interface.backend import MAX_CONCURRENT_REQUESTS, Backend
from backend.interface.errors import user_message
from engine.request import Answer
from ui.cancellation import SessionTasks
from ui.components.document_picker import QuestionInputs
from ui.components.sample_questions import SampleQuestions
from ui.events import ALWAYS, MODEL, QUIET, Update, session_of
from ui.html import tag
from ui.pages.ask import answer as reply
from ui.pages.ask import composer, welcome
from ui.pages.ask.chats import chat_bar as chatbar
from ui.pages.ask.chats.chat import Chat
from ui.pages.ask.chats.turn import Turn
from ui.pages.ask.composer import Composer
from ui.pages.ask.history import History
from ui.pages.ask.metrics import blank
from ui.pages.ask.passage_drawer import Drawer
from ui.pages.ask.passages import SHOW_QUOTED
from ui.pages.ask.results import Results
from ui.pages.ask.thread import thread
from ui.throttle import coalesce

_BLANK = tag("p", "Type a question first, then press Enter.", class_="kv-trouble", role="alert")
_AS_BEFORE = "Stopped before a word was written. The chat is as it was."
_TO_THE_BOX = "(chat) => { document.querySelector('#question textarea')?.focus(); return [chat]; }"
_TO_THE_ANSWER = "() => document.querySelector('#reply')?.scrollIntoView({block: 'start'})"


class Ask:
    """Answers one session's question at a time; nothing of a session stays here but its stop event.

    samples  questions that an empty page offers, each with the name of the document that answers it
    """

    def __init__(self, backend: Backend, samples: Mapping[str, str]) -> None:
        self._backend, self._samples = backend, samples
        self._methods = {method.name: method for method in backend.methods()}
        self.stops = SessionTasks()

    def build(self, tab: gr.Tab) -> None:
        """Draw and connect the page inside its open tab."""
        self._chat = gr.State(Chat(""))  # one with an id comes when the page is loaded
        self._asked = gr.State("")  # what is being answered: the box may hold the next question by then
        self._replacing = gr.State(False)
        self._carrier = gr.JSON(visible="hidden", elem_id="carrier")  # between this browser's chats and the server
        with gr.Row(elem_id="ask-page", equal_height=False):
            with gr.Column(elem_id="main", min_width=0):
                self._bar = gr.HTML(elem_id="chatbar", js_on_load=chatbar.ON_CLICK)
                self._promise = gr.HTML(welcome.promise(), elem_id="promise", js_on_load=None)
                turns = gr.HTML(elem_id="thread", js_on_load=reply.ON_CLICK)
                answer = gr.HTML(elem_id="reply", js_on_load=reply.ON_CLICK)
                passages = gr.HTML(elem_id="passages", js_on_load=SHOW_QUOTED)
                self._box: Composer = composer.build(self._backend)
                with gr.Column(elem_id="welcome", visible=True) as self._welcome:
                    self._offers = SampleQuestions(self._backend, self._samples)
                    gr.HTML(welcome.tour(), elem_id="tour", js_on_load=None)
            with gr.Column(elem_id="scope", min_width=0):
                gr.HTML(tag("h2", "What it took"), js_on_load=None)
                figures = gr.HTML(blank(), elem_id="numbers", js_on_load=None)
                figure = gr.Plot(visible=False, show_label=False, container=False, buttons=[], elem_id="waterfall")
                download = gr.DownloadButton("Download trace (JSON)", size="sm", visible="hidden", elem_id="download")
                history = gr.HTML(elem_id="history", js_on_load=None)
        drawer = Drawer(self._backend)
        drawer.build()
        for cites in (turns, answer):
            drawer.follow(cites)
        self._results = Results(turns, answer, passages, figures, figure, download, history)
        empty = [self._promise, self._welcome]
        self._history = History(
            self._chat, self._replacing, self._carrier, self._bar, self._results, empty, self.stops.busy
        )
        self._connect(self._offers.buttons)

    def wire(self, page: gr.Blocks, shelf: gr.HTML) -> None:
        """Connect what lies outside the page: its loading, and the list of documents."""
        self._history.wire(page)
        self._box.scope.follow(shelf)
        self._offers.follow(shelf)

    def lead(self, act: str, tabs: gr.Tabs, name: str, there: QuestionInputs, press: str) -> None:
        """Let a button under the answer ask the same, of the same documents, on another page.

        What a follow-up leans on is asked with it, since no conversation stands there.

        act    the button's
        name   of the page's tab
        press  a selector of the button that starts it
        """

        def ask_there(chat: Chat) -> Update:
            if not chat.shown:
                return {}
            asked = {
                there.question: chat.last_by_itself(),
                there.where.documents: there.where.left(chat.shown[-1].scope),
            }
            count = {there.passages: chat.shown[-1].best} if chat.shown[-1].best else {}
            return {**asked, **count, tabs: gr.Tabs(selected=name)}

        outputs = [there.question, there.passages, there.where.documents, tabs]
        clicked = getattr(self._results.reply, act)(ask_there, self._chat, outputs, queue=False, **QUIET)
        clicked.then(None, None, None, js=f"() => kvscopePress('{press}')", queue=False, **QUIET)

    def begin(self, question: str, request: gr.Request) -> Update:
        """Answer the click at once, before the model is free; while this session's answer runs, nothing else begins."""
        session = session_of(request)
        if not question.strip() and not self.stops.busy(session):
            return {self._box.said: _BLANK}
        if not question.strip() or not self.stops.start(session):
            return gr.skip()
        waiting = {self._asked: question, self._results.reply: reply.waiting(question)}
        return {self._box.said: "", **waiting, **self._running(True)}

    def retry(self, chat: Chat, request: gr.Request) -> Update:
        """Begin with the last question again; its answer gives way, and what stands in the box stays."""
        begun = self.begin(chat.shown[-1].question, request) if chat.shown else gr.skip()
        return {**begun, self._replacing: True} if self._asked in begun else begun

    def respond(
        self, question: str, chat: Chat, replacing: bool, request: gr.Request, *settings: Any
    ) -> Iterator[Update]:
        """Stream the answer to what has begun. However this ends, the computation is told to stop.

        replacing  whether the chat's last turn gives way to this one
        settings   the values of the composer's inputs
        """
        session, shown, answer = session_of(request), self._results, None
        reached: Hashable = None
        if (stop := self.stops.take(session)) is None:  # a click that began nothing
            yield gr.skip()  # a generator without any update would empty every output
            return
        try:
            before = chat.without_last() if replacing else chat
            wanted = self._box.request(question, settings, before.earlier())
            how = self._methods[wanted.method]
            held = {**self._history.talking(), **self._history.held(chat)}
            yield {**shown.start(before), **self._running(True), **held}
            for answer in coalesce(self._backend.ask(wanted, stop), _milestone):
                news, reached = _milestone(answer) != reached, _milestone(answer)
                yield shown.grow(answer, how, milestone=news)
            self.stops.finish(session, stop)
            if answer is None or (replacing and answer.state == "stopped" and not answer.text):
                said = {**shown.open(chat), shown.reply: reply.error(question, _AS_BEFORE)}
                yield {
                    **said,
                    **self._history.talking(bool(chat.turns)),
                    **self._running(False),
                    self._replacing: False,
                }
                return
            after = before.add(Turn.of(answer, how))
            with tempfile.TemporaryDirectory(prefix="kvscope-") as folder:
                ended = {**shown.finish(answer, how, after, Path(folder)), **self._running(False)}
                kept = self._history.keep(after, question if answer.state == "done" else None)
                yield {**ended, **kept, self._replacing: False}
        except Exception as error:  # noqa: BLE001  the page's border: every error becomes a sentence, bugs are logged
            self.stops.finish(session, stop)
            block = reply.error(question, user_message(error), answer.text if answer else "")
            yield {shown.thread: thread(chat.shown), shown.reply: block, **self._running(False), self._replacing: False}
        finally:
            self.stops.finish(session, stop)

    def stop(self, request: gr.Request) -> None:
        """Stop what this session has asked, now."""
        self.stops.stop(session_of(request))

    def edit(self, chat: Chat) -> Update:
        """Put the last question back into the box; the next answer takes the place of its own."""
        if not chat.shown:
            return gr.skip()
        return {self._box.question: chat.shown[-1].question, self._replacing: True}

    def _connect(self, sample_buttons: dict[str, gr.Button]) -> None:
        box = self._box
        asked = gr.on([box.ask.click, box.question.submit], **self._first_sign())
        self._then_respond(asked)
        for text, button in sample_buttons.items():
            filled = button.click(lambda text=text: text, None, box.question, queue=False, **QUIET)
            self._then_respond(filled.then(**self._first_sign()))
        edited = [box.question, self._replacing]
        self._results.reply.edit(self.edit, self._chat, edited, js=_TO_THE_BOX, queue=False, **QUIET)
        begun = [*self._first_sign()["outputs"], self._replacing]
        self._then_respond(self._results.reply.retry(self.retry, self._chat, begun, queue=False, **QUIET))
        box.stop.click(self.stop, None, None, queue=False, **QUIET)

    def _first_sign(self) -> dict[str, Any]:
        outputs = [self._asked, self._results.reply, self._box.said, self._box.ask, self._box.stop]
        return {"fn": self.begin, "inputs": self._box.question, "outputs": outputs, "queue": False, **QUIET}

    def _then_respond(self, asked: Any) -> None:
        box = self._box
        outputs = [*self._results.components(), *self._history.components()]
        inputs = [self._asked, self._chat, self._replacing, *box.inputs()]
        asked = asked.then(None, None, None, js=_TO_THE_ANSWER, queue=False, **QUIET)
        limit: dict[str, Any] = {"concurrency_id": MODEL, "concurrency_limit": MAX_CONCURRENT_REQUESTS, **ALWAYS}
        answered = asked.then(self.respond, inputs, [*outputs, box.ask, box.stop], **limit, **QUIET)
        self._history.then_keep(answered, box.question)

    def _running(self, running: bool) -> Update:
        return {self._box.ask: gr.Button(visible=not running), self._box.stop: gr.Button(visible=running)}


def _milestone(answer: Answer) -> Hashable:
    """What is worth redrawing more than the text for."""
    return answer.state, len(answer.sources), answer.trace.ttft_ms is None
