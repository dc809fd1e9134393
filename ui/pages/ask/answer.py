"""The current answer as HTML: question, state, text with citations, notes and buttons."""

from collections.abc import Mapping

from engine.request import Answer
from engine.text import CITATION_MARK
from ui.figures.answer_metrics import render_state
from ui.html import Markup, button, error_box, join, progress_line, tag

_BUTTONS = {
    "copy": ("Copy", "Copy the answer"),
    "retry": ("Retry", "Ask again with the current settings"),
    "edit": ("Edit", "Edit the question and replace this answer"),
    "expand": ("Inspect", "Show attention and token selection for this question"),
    "apply": ("Compare", "Compare methods on this question"),
}
# Turns clicks on buttons and citations inside our HTML into Gradio events with the clicked passage.
ON_CLICK = """
element.addEventListener('click', (event) => {
    const button = event.target.closest('[data-act]');
    if (!button) return;
    if (button.dataset.act === 'copy') {
        const text = element.querySelector('.kv-text').cloneNode(true);
        for (const cite of text.querySelectorAll('.kv-cite')) cite.textContent = `[${cite.textContent}]`;
        const show = (message) => () => { button.textContent = message; };
        const copied = navigator.clipboard?.writeText(text.textContent) ?? Promise.reject();  // missing over plain http
        copied.then(show('Copied'), show('Copying failed'));
        return;
    }
    const {id = '', rank = '', context = ''} = button.dataset;
    trigger(button.dataset.act, {id, rank, context});
});
"""
_MAX_CONTEXT_CHARS = 600  # text before a citation that is sent with a click, to find the quoted sentence


def render_answer(answer: Answer) -> Markup:
    """Return the question and the answer so far."""
    chunks = {source.rank: source.chunk for source in answer.sources}
    has_ended = answer.state in ("done", "stopped")
    text = tag("div", link_citations(answer.text, chunks), class_="kv-text", dir="auto") if answer.text else None
    if answer.state == "done" and not answer.text:
        text = tag("p", "The model returned an empty answer.", class_="kv-muted")
    notes = tag("ul", *(tag("li", note) for note in answer.notes), class_="kv-notes", aria_label="Notes")
    buttons = (button(act, None, label, title=tooltip) for act, (label, tooltip) in _BUTTONS.items())
    return tag(
        "article",
        render_question(answer.request.question),
        render_state(answer),
        text,
        notes if answer.notes else None,
        tag("div", *buttons, class_="kv-acts") if has_ended else None,
        class_="kv-reply",
        aria_busy="false" if has_ended else "true",
    )


def render_waiting(question: str) -> Markup:
    """Return the view between the click and the first snapshot of the answer."""
    state = progress_line("Waiting for the model")
    return tag("article", render_question(question), state, class_="kv-reply", aria_busy="true")


def render_error(question: str, message: str, text: str = "") -> Markup:
    """Return an error message below the text that was generated before it."""
    return tag(
        "article",
        render_question(question) if question else None,
        tag("div", text, class_="kv-text", dir="auto") if text else None,
        error_box(message),
        class_="kv-reply",
    )


def render_question(question: str) -> Markup:
    """Return the question as the heading of its answer."""
    return tag("h2", question, class_="kv-question", dir="auto")


def link_citations(text: str, chunks: Mapping[int, str]) -> Markup:
    """Return the text with each [n] of a passage as a button that opens the passage.

    chunks  chunk ids by passage rank
    """
    parts: list[object] = []
    context = ""
    for index, part in enumerate(CITATION_MARK.split(text)):
        if index % 2 == 0:
            parts.append(part)
            context = part.strip()[-_MAX_CONTEXT_CHARS:] or context  # two marks can follow one sentence
        elif int(part) in chunks:
            rank = int(part)
            attributes = {"data_rank": rank, "data_context": context, "aria_label": f"Source {rank}"}
            parts.append(button("select", chunks[rank], str(rank), class_="kv-cite", **attributes))
        else:
            parts.append(f"[{part}]")
    return join(*parts)
