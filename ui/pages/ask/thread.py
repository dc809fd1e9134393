"""The chat so far, each turn with its answer, its sources and what it took."""

from collections.abc import Iterable

from ui.format import duration, percent
from ui.html import Markup, join, tag
from ui.pages.ask.answer import cited
from ui.pages.ask.chats.turn import Turn


def thread(turns: Iterable[Turn]) -> Markup:
    """Return earlier turns, oldest first."""
    return join(*(_turn(turn) for turn in turns))


def _turn(turn: Turn) -> Markup:
    chunks = {passage.rank: passage.chunk for passage in turn.passages}
    said = tag("div", cited(turn.text, chunks), class_="kv-text", dir="auto") if turn.text else None
    return tag(
        "article",
        tag("h2", turn.question, class_="kv-question", dir="auto"),
        said or tag("p", "No answer was written.", class_="kv-muted"),
        tag("p", _took(turn), class_="kv-took"),
        class_="kv-turn",
    )


def _took(turn: Turn) -> str:
    recomputed = f" · {percent(turn.realised)} recomputed" if turn.passages and turn.realised is not None else ""
    return f"{turn.said}{recomputed} · first token after {duration(turn.ttft_ms)}"
