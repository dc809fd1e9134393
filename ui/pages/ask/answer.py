"""The answer as HTML: the question, what is going on, the text with its citations, and what a person should know."""

from collections.abc import Mapping

from engine.request import Answer
from engine.text import CITATION_MARK
from ui.html import Markup, join, tag

_STATES = {
    "waiting": "Waiting for the model…",
    "searching": "Searching…",
    "reading": "Reading passages…",
    "writing": "Writing…",
    "stopped": "Stopped. This is what was written so far.",
}
_ACTS = {
    "copy": ("Copy", "Copy the answer"),
    "retry": ("Retry", "Ask the same question again, with the settings of now"),
    "edit": ("Edit", "Change the question; its answer is replaced"),
    "expand": ("Inspect", "See what the models look at for this question"),
    "apply": ("Compare", "Ask the same of several methods, side by side"),
}
# Buttons and citations inside our own HTML become events with what to do and to which passage.
ON_CLICK = """
element.addEventListener('click', (event) => {
    const button = event.target.closest('[data-act]');
    if (!button) return;
    if (button.dataset.act === 'copy') {
        const text = element.querySelector('.kv-text').cloneNode(true);
        for (const cite of text.querySelectorAll('.kv-cite')) cite.textContent = `[${cite.textContent}]`;
        const tell = (said) => () => { button.textContent = said; };
        const copied = navigator.clipboard?.writeText(text.textContent) ?? Promise.reject();  // over plain http: none
        copied.then(tell('Copied'), tell('Copying failed'));
        return;
    }
    const {id = '', rank = '', said = ''} = button.dataset;
    trigger(button.dataset.act, {id, rank, said});
});
"""
_SAID = 600  # characters before a mark, to find what they quote


def reply(answer: Answer) -> Markup:
    """Return the current question and its growing answer."""
    chunks = {source.rank: source.chunk for source in answer.sources}
    ended = answer.state in ("done", "stopped")
    notes = tag("ul", *(tag("li", note) for note in answer.notes), class_="kv-notes", aria_label="Notes")
    return tag(
        "article",
        _question(answer.request.question),
        _state(answer.state),
        tag("div", cited(answer.text, chunks), class_="kv-text", dir="auto") if answer.text else _silence(answer),
        notes if answer.notes else None,
        _acts() if ended else None,
        class_="kv-reply",
        aria_busy="false" if ended else "true",
    )


def waiting(question: str) -> Markup:
    """Return the view between the click and the first sign of the engine."""
    return tag("article", _question(question), _state("waiting"), class_="kv-reply", aria_busy="true")


def error(question: str, sentence: str, written: str = "") -> Markup:
    """Return an error that stays on the page, below what was `written` before it."""
    return tag(
        "article",
        _question(question) if question else None,
        tag("div", written, class_="kv-text", dir="auto") if written else None,
        tag("p", sentence, class_="kv-trouble", role="alert", dir="auto"),
        class_="kv-reply",
    )


def cited(text: str, chunks: Mapping[int, str]) -> Markup:
    """Return the text with every [n] of a passage as a button that opens it.

    chunks  ids of the passages by their rank
    """
    parts: list[object] = []
    said = ""
    for number, part in enumerate(CITATION_MARK.split(text)):
        if number % 2 == 0:
            parts.append(part)
            said = part.strip()[-_SAID:] or said  # two marks can stand behind one sentence
        elif int(part) in chunks:
            rank = int(part)
            opens = {"data_act": "select", "data_id": chunks[rank], "data_rank": rank, "data_said": said}
            parts.append(
                tag("button", str(rank), type="button", class_="kv-cite", aria_label=f"Source {rank}", **opens)
            )
        else:
            parts.append(f"[{part}]")
    return join(*parts)


def _acts() -> Markup:
    buttons = (tag("button", label, type="button", data_act=act, title=says) for act, (label, says) in _ACTS.items())
    return tag("div", *buttons, class_="kv-acts")


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
