"""The answer as HTML: the question, what is going on, the text with its citations, and what a person should know."""

import re
from collections.abc import Iterable

from engine.answer import Answer
from ui.markup import Markup, join, tag
from ui.turn import Turn

_STATES = {
    "waiting": "Waiting for the model…",
    "searching": "Searching…",
    "reading": "Reading passages…",
    "writing": "Writing…",
    "stopped": "Stopped. This is what was written so far.",
}
_CITATION = re.compile(r"\[(\d{1,3})\]")


def reply(answer: Answer) -> Markup:
    """Return the current question and its growing answer."""
    ranks = {source.rank for source in answer.sources}
    notes = tag("ul", *(tag("li", note) for note in answer.notes), class_="kv-notes", aria_label="Notes")
    return tag(
        "article",
        _question(answer.request.question),
        _state(answer.state),
        tag("div", cited(answer.text, ranks), class_="kv-text", dir="auto") if answer.text else _silence(answer),
        notes if answer.notes else None,
        class_="kv-reply",
        aria_busy="false" if answer.state in ("done", "stopped") else "true",
    )


def waiting(question: str) -> Markup:
    """Return the view between the click and the first sign of the engine."""
    return tag("article", _question(question), _state("waiting"), class_="kv-reply", aria_busy="true")


def trouble(question: str, sentence: str, written: str = "") -> Markup:
    """Return an error that stays on the page, below what was `written` before it."""
    return tag(
        "article",
        _question(question) if question else None,
        tag("div", written, class_="kv-text", dir="auto") if written else None,
        tag("p", sentence, class_="kv-trouble", role="alert", dir="auto"),
        class_="kv-reply",
    )


def earlier(turns: Iterable[Turn]) -> Markup:
    """Return the session's earlier questions, oldest first, each unfolding to its answer."""
    return join(
        *(
            tag(
                "details",
                tag("summary", tag("bdi", turn.question, title=turn.question)),
                tag("div", turn.text or "No answer was written.", class_="kv-text", dir="auto"),
                class_="kv-turn",
            )
            for turn in turns
        )
    )


def cited(text: str, ranks: set[int]) -> Markup:
    """Return the text with every [n] of a passage shown below as a link to it."""
    parts: list[object] = []
    for number, part in enumerate(_CITATION.split(text)):
        if number % 2 == 0:
            parts.append(part)
        elif int(part) in ranks:
            rank = int(part)
            parts.append(tag("a", str(rank), href=f"#source-{rank}", class_="kv-cite", aria_label=f"Source {rank}"))
        else:
            parts.append(f"[{part}]")
    return join(*parts)


def _question(question: str) -> Markup:
    return tag("h2", question, class_="kv-question", dir="auto")


def _state(state: str) -> Markup | None:
    if state not in _STATES:
        return None
    running = state != "stopped"
    dots = tag("span", class_="kv-pulse", aria_hidden="true") if running else None
    return tag("p", dots, _STATES[state], class_="kv-state")


def _silence(answer: Answer) -> Markup | None:
    return tag("p", "The model wrote nothing.", class_="kv-muted") if answer.state == "done" else None
