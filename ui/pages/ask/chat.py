"""A chat and its turns as plain data. Browsers store chats, so loading one validates it."""

import json
import re
import secrets
import time
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from pydantic import TypeAdapter, ValidationError

from engine.generation.quotes import format_unit
from engine.method import MethodInfo
from engine.prompt.followups import relevant_turns
from engine.request import Answer, ChatTurn, Quote, needs_check
from engine.text import CITATION_MARK
from ui.components.method_options import non_default_options
from ui.format import day, duration, percent, short

OTHER_ANSWERS = "Other possible answers:"  # before the quotes that may answer instead
MAX_TURNS = 100  # per chat; replaced turns are dropped first, then the oldest
_HISTORY_TURNS = 3  # earlier turns that may resolve a follow-up question
_MAX_NAME_CHARS = 60
_CITATION = re.compile(CITATION_MARK.pattern + r"(?!\()")  # "[1](" would be a Markdown link
_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|!~&$])")
_LINE_START = re.compile(r"^(\d{1,9}(?=[.)])|(?=[-+=:]))")  # list items, setext headings, tables


@dataclass(frozen=True, slots=True)
class TurnSource:
    """A passage in the prompt of an answer. `chunk` is its id in the store."""

    rank: int
    document: str
    page: int | None
    chunk: str
    cited: bool


@dataclass(frozen=True, slots=True)
class Turn:
    """What a chat keeps of an answer. Browsers store chats as JSON under these names: do not rename the fields."""

    question: str
    text: str
    stopped: bool
    method: str  # its label
    options: tuple[str, ...]  # those that differ from the method's defaults, as text
    nominal: float | None  # target recompute ratio; None if the method has none
    realised: float | None  # actual recompute ratio; None if the request was stopped before prefill ended
    ttft_ms: float | None
    tokens_per_second: float | None
    passages: tuple[TurnSource, ...] = ()
    context_tokens: int = 0
    whole: bool = False  # computed with full prefill, so its TTFT is the baseline
    replaced: bool = False  # retried or edited since: kept in the metrics table, hidden in the thread
    scope: tuple[str, ...] = ()  # ids of the documents searched; empty: all
    best: int = 0  # number of passages requested; 0 if a whole document was used
    unverified: bool = False  # a draft: stopped before it was verified
    expected_kl: float | None = None  # from full prefill in nats, by the model's calibration; None if not calibrated
    highlight: str = ""  # the words of the text that most likely answer
    confidence: float | None = None  # this and the next three as in Answer
    is_quoted: bool = False
    quotes: tuple[Quote, ...] = ()
    alternatives: tuple[Quote, ...] = ()

    @classmethod
    def from_answer(cls, answer: Answer, method: MethodInfo) -> "Turn":
        """Return the turn of a finished answer."""
        request, trace = answer.request, answer.trace
        sources = (TurnSource(each.rank, each.document, each.page, each.chunk, each.cited) for each in answer.sources)
        draft = answer.draft if answer.state == "stopped" and answer.draft_status == "unverified" else None
        shown = draft or answer
        return cls(
            question=request.question,
            text=shown.text,
            stopped=answer.state == "stopped",
            method=method.label,
            options=tuple(non_default_options(method, request.options)),
            nominal=request.recompute_ratio if method.has_ratio else None,
            realised=None if answer.trace.ttft_ms is None or answer.answered_by else answer.actual_ratio,
            ttft_ms=answer.trace.ttft_ms,
            tokens_per_second=answer.tokens_per_second,
            passages=tuple(sources),
            context_tokens=answer.context_tokens,
            whole=request.method == "full" and trace.waited_for("prefill") and not trace.waited_for("draft"),
            scope=request.documents,
            best=0 if request.whole_document else request.passages,
            unverified=draft is not None,
            expected_kl=answer.expected_kl,
            highlight=shown.highlight,
            confidence=shown.confidence,
            is_quoted=shown.is_quoted,
            quotes=shown.quotes,
            alternatives=shown.alternatives,
        )

    @property
    def needs_check(self) -> bool:
        return needs_check(self.confidence)

    @property
    def chunk_ids(self) -> tuple[str, ...]:
        return tuple(source.chunk for source in self.passages)

    @property
    def summary(self) -> str:
        """Method and options: 'CacheBlend · Check layer: 3'."""
        end = ["unverified draft"] if self.unverified else ["stopped"] if self.stopped else []
        return " · ".join((self.method, *self.options, *end))

    @property
    def metrics_line(self) -> str:
        """Summary, and if they are known actual recompute ratio and TTFT, on one line."""
        recomputed = f" · {percent(self.realised)} recomputed" if self.passages and self.realised is not None else ""
        ttft = "" if self.ttft_ms is None else f" · first token after {duration(self.ttft_ms)}"
        return f"{self.summary}{recomputed}{ttft}"

    @property
    def export_line(self) -> str:
        """What a downloaded chat says about how the answer was made, and how certain it is."""
        check = ", check the source" if self.needs_check else ""
        confidence = "" if self.confidence is None else f" · {percent(self.confidence)} confidence{check}"
        return self.metrics_line + confidence

    def as_document(self) -> str:
        """Return the answer as a Markdown document: the question, the text and the sources it cites."""
        sources = [_source_item(source) for source in self.passages if source.cited]
        blocks = [f"# {_escape_line(self.question)}", _escape_block(self.text)]
        return "\n\n".join(blocks + (["Sources:", "\n".join(sources)] if sources else [])) + "\n"

    @property
    def why_empty(self) -> str:
        """What is shown in place of an answer without text."""
        return "Stopped before the first token." if self.stopped else "The model returned an empty answer."


@dataclass(frozen=True, slots=True)
class Chat:
    """A conversation. Browsers store it as JSON under these names: do not rename the fields."""

    # Random; empty until the first turn if the browser has no storage.
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    title: str = ""  # given by the user; empty: the first question is shown
    at: float = 0.0  # Unix time of the last turn
    turns: tuple[Turn, ...] = ()
    pinned: bool = False
    archived: bool = False

    @classmethod
    def from_saved(cls, saved: Any) -> "Chat":
        """Return the chat that a browser stored; a new chat if `saved` is anything else."""
        try:
            return _CHAT_ADAPTER.validate_python(saved)
        except ValidationError:
            return cls()

    @property
    def visible_turns(self) -> list[Turn]:
        """The turns of the thread, oldest first."""
        return [turn for turn in self.turns if not turn.replaced]

    @property
    def name(self) -> str:
        """The title, or else the first question."""
        turns = self.visible_turns or self.turns
        return self.title or (short(turns[0].question, _MAX_NAME_CHARS) if turns else "New chat")

    def recent_history(self) -> tuple[ChatTurn, ...]:
        """Return the turns that a new question may refer to."""
        return _history(self.visible_turns)

    def standalone_question(self) -> str:
        """Return the last question, preceded by the earlier ones it refers to, for use outside this chat."""
        *earlier, last = self.visible_turns
        questions = [turn.question for turn in relevant_turns(last.question, _history(earlier))]
        return " ".join([*questions, last.question])

    def add(self, turn: Turn) -> "Chat":
        """Return the chat with one more turn, and with an id if it had none."""
        turns = [*self.turns, turn]
        while len(turns) > MAX_TURNS:
            turns.remove(next((each for each in turns if each.replaced), turns[0]))
        return replace(self, id=self.id or Chat().id, turns=tuple(turns), at=time.time())

    def without_last(self) -> "Chat":
        """Return the chat with its last visible turn marked as replaced."""
        turns = list(self.turns)
        for index in reversed(range(len(turns))):
            if not turns[index].replaced:
                turns[index] = replace(turns[index], replaced=True)
                break
        return replace(self, turns=tuple(turns))

    def full_ttft_ms(self, turn: Turn) -> float | None:
        """Return the latest TTFT of full prefill for the same question and passages; None if it was not measured."""
        times = [each.ttft_ms for each in self.runs_of(turn) if each.whole and each.ttft_ms is not None]
        return times[-1] if times else None

    def runs_of(self, turn: Turn) -> list[Turn]:
        """Return all turns with the same question and passages, oldest first; also those that were replaced since."""
        prompt = (turn.question, turn.chunk_ids)
        return [each for each in self.turns if (each.question, each.chunk_ids) == prompt]

    def as_json(self) -> str:
        """Return the chat for download."""
        return json.dumps(asdict(self), indent=2, ensure_ascii=False)

    def as_markdown(self) -> str:
        """Return the chat for download, each answer with its sources and metrics."""
        blocks = [f"# {_escape_line(self.name)}", f"KVScope chat, {day(self.at)}."]
        for turn in self.visible_turns:
            blocks += [f"## {_escape_line(turn.question)}", _escape_block(turn.text) or f"*{turn.why_empty}*"]
            if turn.alternatives:
                quotes = (f"- {_escape_line(format_unit(each.text))} [{each.rank}]" for each in turn.alternatives)
                blocks += [OTHER_ANSWERS, "\n".join(quotes)]
            if turn.passages:
                blocks.append("\n".join(_source_item(source) for source in turn.passages))
            blocks.append(f"*{_escape_line(turn.export_line)}*")
        return "\n\n".join(blocks) + "\n"


_CHAT_ADAPTER = TypeAdapter(Chat)


def _history(turns: list[Turn]) -> tuple[ChatTurn, ...]:
    """Return the last turns as conversation history for the engine."""
    return tuple(ChatTurn(turn.question, turn.text, turn.chunk_ids) for turn in turns[-_HISTORY_TURNS:])


def _source_item(source: TurnSource) -> str:
    page = "" if source.page is None else f", page {source.page}"
    return f"- [{source.rank}] {_escape_line(source.document)}{page}"


def _escape_line(text: str) -> str:
    """Return a text as one line of Markdown without markup; citations stay as they are."""
    parts = _CITATION.split(" ".join(text.split()))
    return "".join(f"[{part}]" if index % 2 else _MARKUP.sub(r"\\\1", part) for index, part in enumerate(parts))


def _escape_block(text: str) -> str:
    """Return a text of several lines as Markdown paragraphs without markup."""
    return "\n".join(_LINE_START.sub(r"\1\\", _escape_line(line)) for line in text.splitlines()).strip("\n")
