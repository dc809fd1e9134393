"""A chat: a title and its turns. Chats live in the person's own browser, so what comes back from there is checked."""

import json
import secrets
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

from pydantic import TypeAdapter, ValidationError

from engine.prompt.followups import relevant_turns
from engine.request import ChatTurn
from ui.format import day, duration, percent, short
from ui.pages.ask.chats import export_markdown as markdown
from ui.pages.ask.chats.turn import Turn

MOST_TURNS = 100  # of one chat; those that were asked again go first, then the oldest
_LEANED_ON = 3  # earlier questions that a new one is understood by
_TITLE = 60


@dataclass(frozen=True, slots=True)
class Chat:
    """id     random; empty until its first turn, if the browser told nothing of its chats
    title  what a person called it; empty: its first question
    at     of its last turn, seconds since the epoch
    """

    id: str
    title: str = ""
    at: float = 0.0
    turns: tuple[Turn, ...] = ()

    @classmethod
    def new(cls) -> "Chat":
        """Return an empty chat with an id of its own."""
        return cls(secrets.token_hex(8))

    @classmethod
    def of(cls, saved: Any) -> "Chat":
        """Return what a browser kept; an empty chat if it is not one, whatever it is."""
        try:
            return _CHAT.validate_python(saved)
        except ValidationError:
            return cls.new()

    @property
    def shown(self) -> list[Turn]:
        """The turns of the thread, oldest first."""
        return [turn for turn in self.turns if not turn.replaced]

    @property
    def name(self) -> str:
        return self.title or (short(self.turns[0].question, _TITLE) if self.turns else "New chat")

    @property
    def full(self) -> bool:
        """Whether one more turn takes the place of the oldest in the thread."""
        return len(self.shown) >= MOST_TURNS

    def earlier(self) -> tuple[ChatTurn, ...]:
        """Return what a new question may lean on."""
        return tuple(turn.exchange() for turn in self.shown[-_LEANED_ON:])

    def last_by_itself(self) -> str:
        """Return the last question, behind those that it leans on: so it can be asked where this chat is not."""
        *before, last = self.shown
        leaning = relevant_turns(last.question, [turn.exchange() for turn in before[-_LEANED_ON:]])
        return " ".join([*(exchange.question for exchange in leaning), last.question])

    def add(self, turn: Turn, clock: Callable[[], float] = time.time) -> "Chat":
        """Return the chat with one more turn, and with an id if it had none."""
        turns = [*self.turns, turn]
        while len(turns) > MOST_TURNS:
            turns.remove(next((each for each in turns if each.replaced), turns[0]))
        return replace(self, id=self.id or Chat.new().id, turns=tuple(turns), at=clock())

    def without_last(self) -> "Chat":
        """Return the chat with its last shown turn replaced by whatever comes next."""
        turns = list(self.turns)
        for place in reversed(range(len(turns))):
            if not turns[place].replaced:
                turns[place] = replace(turns[place], replaced=True)
                break
        return replace(self, turns=tuple(turns))

    def full_ttft_ms(self, turn: Turn) -> float | None:
        """Return what the first token of the same question took with full prefill; None if that was not measured."""
        alike = (t for t in self.turns if t.whole and _asked(t) == _asked(turn) and t.ttft_ms is not None)
        return next((other.ttft_ms for other in reversed(list(alike))), None)

    def as_dict(self) -> dict[str, Any]:
        """Return plain data, as the browser keeps it and `of` reads it."""
        return asdict(self)

    def as_json(self) -> str:
        """Return the chat for download."""
        return json.dumps(self.as_dict(), indent=2, ensure_ascii=False)

    def as_markdown(self) -> str:
        """Return the chat for reading; every answer with its sources and what it took."""
        parts = [f"# {markdown.line(self.name)}", f"Asked with KVScope, {day(self.at)}."]
        for turn in self.shown:
            parts += [f"## {markdown.line(turn.question)}", markdown.block(turn.text) or "*No answer was written.*"]
            read = [_source(passage.rank, passage.document, passage.page) for passage in turn.passages]
            asked = "" if turn.nominal is None or turn.realised is None else f", {percent(turn.realised)} recomputed"
            took = f"*{markdown.line(turn.said)}{asked}; first token after {duration(turn.ttft_ms)}.*"
            parts += ["\n".join(read), took] if read else [took]
        return "\n\n".join(parts) + "\n"


_CHAT = TypeAdapter(Chat)


def _asked(turn: Turn) -> tuple[str, tuple[str, ...]]:
    return turn.question, tuple(passage.chunk for passage in turn.passages)


def _source(rank: int, document: str, page: int | None) -> str:
    return f"- [{rank}] {markdown.line(document)}" + ("" if page is None else f", page {page}")
