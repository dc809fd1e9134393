"""A chat: a title and its turns. Chats are stored in the user's browser, so loading one validates it."""

import json
import secrets
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

from pydantic import TypeAdapter, ValidationError

from engine.prompt.followups import relevant_turns
from engine.request import ChatTurn
from ui.format import day, short
from ui.pages.ask.chats.export_markdown import escape_block, escape_line
from ui.pages.ask.chats.turn import Turn, TurnSource

MAX_TURNS = 100  # per chat; replaced turns are dropped first, then the oldest
_HISTORY_TURNS = 3  # earlier turns that may resolve a follow-up question
_MAX_NAME_CHARS = 60


@dataclass(frozen=True, slots=True)
class Chat:
    """A conversation. Browsers store it as JSON under these names: do not rename the fields.

    id     random; empty until the first turn if the browser has no storage
    title  given by the user; empty: the first question is shown
    at     Unix time of the last turn
    """

    id: str
    title: str = ""
    at: float = 0.0
    turns: tuple[Turn, ...] = ()

    @classmethod
    def new(cls) -> "Chat":
        """Return an empty chat with a new id."""
        return cls(secrets.token_hex(8))

    @classmethod
    def from_saved(cls, saved: Any) -> "Chat":
        """Return the chat that `as_dict` saved; a new chat if `saved` is anything else."""
        try:
            return _CHAT_ADAPTER.validate_python(saved)
        except ValidationError:
            return cls.new()

    @property
    def visible_turns(self) -> list[Turn]:
        """The turns of the thread, oldest first."""
        return [turn for turn in self.turns if not turn.replaced]

    @property
    def name(self) -> str:
        """The title, or else the first question."""
        return self.title or (short(self.turns[0].question, _MAX_NAME_CHARS) if self.turns else "New chat")

    @property
    def is_full(self) -> bool:
        """Whether the next turn drops the oldest one of the thread."""
        return len(self.visible_turns) >= MAX_TURNS

    def recent_history(self) -> tuple[ChatTurn, ...]:
        """Return the turns that a new question may refer to."""
        return tuple(turn.to_chat_turn() for turn in self.visible_turns[-_HISTORY_TURNS:])

    def standalone_question(self) -> str:
        """Return the last question, preceded by the earlier ones it refers to, for use outside this chat."""
        *earlier, last = self.visible_turns
        history = relevant_turns(last.question, [turn.to_chat_turn() for turn in earlier[-_HISTORY_TURNS:]])
        return " ".join([*(turn.question for turn in history), last.question])

    def add(self, turn: Turn, clock: Callable[[], float] = time.time) -> "Chat":
        """Return the chat with one more turn, and with an id if it had none."""
        turns = [*self.turns, turn]
        while len(turns) > MAX_TURNS:
            turns.remove(next((each for each in turns if each.replaced), turns[0]))
        return replace(self, id=self.id or Chat.new().id, turns=tuple(turns), at=clock())

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
        ttfts_ms = [
            each.ttft_ms
            for each in self.turns
            if each.whole and _prompt_of(each) == _prompt_of(turn) and each.ttft_ms is not None
        ]
        return ttfts_ms[-1] if ttfts_ms else None

    def as_dict(self) -> dict[str, Any]:
        """Return plain data, as the browser stores it and `from_saved` reads it."""
        return asdict(self)

    def as_json(self) -> str:
        """Return the chat for download."""
        return json.dumps(self.as_dict(), indent=2, ensure_ascii=False)

    def as_markdown(self) -> str:
        """Return the chat for download, each answer with its sources and metrics."""
        blocks = [f"# {escape_line(self.name)}", f"Asked with KVScope, {day(self.at)}."]
        for turn in self.visible_turns:
            blocks += [f"## {escape_line(turn.question)}", escape_block(turn.text) or "*No answer was generated.*"]
            if turn.passages:
                blocks.append("\n".join(_source_item(source) for source in turn.passages))
            blocks.append(f"*{escape_line(turn.metrics_line)}*")
        return "\n\n".join(blocks) + "\n"


_CHAT_ADAPTER = TypeAdapter(Chat)


def _prompt_of(turn: Turn) -> tuple[str, tuple[str, ...]]:
    return turn.question, tuple(source.chunk for source in turn.passages)


def _source_item(source: TurnSource) -> str:
    page = "" if source.page is None else f", page {source.page}"
    return f"- [{source.rank}] {escape_line(source.document)}{page}"
