"""The figures of an answer, and the table that sets a chat's answers side by side."""

from collections.abc import Sequence

from engine.method import MethodInfo
from engine.request import Answer
from ui.format import UNKNOWN, count, duration, percent, short
from ui.html import Markup, join, tag
from ui.pages.ask.budget import budget
from ui.pages.ask.chats.turn import Turn

_ROWS = 10
_SHARE = "Recomputed tokens / reusable tokens."
_DIFFERS = " It can differ from what was asked: a method may take whole windows only, or find too few."
_COLUMNS = {
    "Question": "",
    "Asked": "Nominal recompute ratio; a dash where the method has none",
    "Done": "Realised recompute ratio",
    "First token": "Time to first token",
    "TextTokenizer/s": "Writing speed",
}


def blank() -> Markup:
    """Return what stands in the place of the figures before there is an answer."""
    said = "Ask a question to see where the time went, how much was reused and what was computed again."
    return tag("p", said, class_="kv-muted kv-empty")


def numbers(answer: Answer, method: MethodInfo) -> Markup:
    """Return the figures of one answer; dashes for what is not known yet.

    method  the one that was asked for; what was asked of its ratio is said only where it has one
    """
    known = answer.trace.ttft_ms is not None
    speed = UNKNOWN if answer.tokens_per_second is None else f"{answer.tokens_per_second:.1f}"
    figures = tag(
        "dl",
        _figure(
            "Time to first token",
            duration(answer.trace.ttft_ms),
            "from your question to the first word",
            "Measured from the question's arrival to the first token, everything included.",
            "kv-lead",
        ),
        _figure(
            "Recomputed",
            percent(answer.realised_ratio, 1) if known else UNKNOWN,
            f"asked for {percent(answer.request.ratio)}" if method.has_ratio else f"{method.label} has no ratio",
            _SHARE + (_DIFFERS if method.has_ratio else ""),
        ),
        _figure(
            "TextTokenizer recomputed",
            f"{answer.recomputed_tokens:,}" if known else UNKNOWN,
            f"of {answer.context_tokens:,} reusable" if answer.context_tokens else "of those reusable",
            "Reusable tokens are those of all passages; the rest of their keys and values came from the cache.",
        ),
        _figure(
            "Writing speed",
            speed,
            "tokens per second" + (f", {answer.new_tokens:,} written" if answer.new_tokens else ""),
            "Speed of the answer after its first token.",
        ),
        _figure(
            "Question",
            f"{answer.question_tokens:,}" if answer.question_tokens else UNKNOWN,
            "tokens, always computed",
            "The question is new each time, so its tokens are never reused.",
        ),
        class_="kv-figures",
    )
    return join(figures, budget(answer))


def history(turns: Sequence[Turn]) -> Markup:
    """Return the last ten answers of the chat, newest first."""
    if not turns:
        return Markup("")
    head = tag("tr", *(tag("th", name, scope="col", title=hint or None) for name, hint in _COLUMNS.items()))
    caption = tag("caption", f"This chat · {count(len(turns), 'answer')}")
    body = tag("tbody", *(_row(turn) for turn in list(turns)[: -_ROWS - 1 : -1]))
    return tag("table", caption, tag("thead", head), body, class_="kv-history")


def _row(turn: Turn) -> Markup:
    question = tag("bdi", short(turn.question), class_="kv-clip", title=turn.question)
    method = tag("span", turn.said, class_="kv-method")
    speed = UNKNOWN if turn.tokens_per_second is None else f"{turn.tokens_per_second:.1f}"
    asked = UNKNOWN if turn.nominal is None else percent(turn.nominal)
    cells = (asked, percent(turn.realised, 1), duration(turn.ttft_ms), speed)
    return tag("tr", tag("th", question, method, scope="row"), *(tag("td", cell) for cell in cells))


def _figure(name: str, value: str, note: str, meaning: str, extra: str = "") -> Markup:
    return tag(
        "div",
        tag("dt", name),
        tag("dd", value, tag("small", note)),
        class_=f"kv-figure {extra}".strip(),
        title=meaning,
    )
