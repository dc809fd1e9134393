"""The library as HTML: files on their way in, and documents that are there."""

from collections.abc import Iterable, Sequence

from backend.interface.backend import TierUsage
from backend.interface.library import IngestProgress
from store.types import Document
from ui.format import count, day, size
from ui.html import Markup, join, tag

PLACES = {"device": "in GPU memory", "host": "in memory", "disk": "on disk"}
# For the component that shows `progress`: what has ended can be taken away, here in the page.
DISMISS = """
element.addEventListener('click', (event) => event.target.closest('[data-act=dismiss]')?.closest('li').remove());
"""
_STEPS = ("parsed", "chunked", "embedded", "prefilled")


def progress(files: Iterable[IngestProgress], cancel: bool = False) -> Markup:
    """Return a line for each file with its four steps; what went wrong stands where it happened.

    cancel  whether each unfinished file has a button of its own that cancels it
    """
    rows = [_file(file, place if cancel else None) for place, file in enumerate(files)]
    return tag("ul", *rows, class_="kv-files", aria_label="Files being added") if rows else Markup("")


_EMPTY = "No documents yet. Drop files on the box above, or click it to choose some. Then ask about them."
_OPENING = "Your documents are shown as soon as they are opened."


def shelf(
    documents: Iterable[Document], kept: Sequence[TierUsage] = (), doomed: str = "", opening: bool = False
) -> Markup:
    """Return the documents, newest first, and what is kept of them.

    doomed   waits for a yes to be deleted
    opening  nobody knows yet which documents there are
    """
    rows = [_document(document, document.id == doomed) for document in documents]
    if not rows:
        return tag("p", _OPENING if opening else _EMPTY, class_="kv-muted kv-empty")
    return join(tag("ul", *rows, class_="kv-shelf", aria_label="Documents"), _kept(kept))


def _kept(tiers: Sequence[TierUsage]) -> Markup | None:
    """Return a line about computed keys and values with a button that removes them; None where there are none."""
    used = [f"{size(kept.size_bytes)} {PLACES[kept.tier]}" for kept in tiers if kept.size_bytes]
    if not used:
        return None
    meaning = "Keys and values that were computed for your passages. Removed, they are computed again when needed."
    button = tag("button", "Clear", type="button", data_act="clear", data_id="", title=meaning)
    return tag("div", tag("small", f"Computed: {', '.join(used)}", title=meaning), button, class_="kv-shelf kv-kept")


def _file(file: IngestProgress, place: int | None) -> Markup:
    failed, done = file.stage == "failed", file.stage == "done"
    reached = len(_STEPS) if done else _STEPS.index(file.stage) if file.stage in _STEPS else -1
    message = tag("p", file.message, class_="kv-trouble" if failed else "kv-warning", dir="auto")
    if not (failed or done):
        stop = None if place is None else _end("cancel", file.name, place)
    else:  # what was added without a word goes away by itself
        stop = _end("dismiss", file.name) if failed or file.message else None
    return tag(
        "li",
        tag("div", tag("bdi", file.name, class_="kv-clip", title=file.name), stop, class_="kv-file-head"),
        None if failed else tag("ol", *(_step(name, place, reached, file) for place, name in enumerate(_STEPS))),
        message if file.message else None,
        class_=f"kv-file kv-file-{'failed' if failed else 'done' if done else 'busy'}",
    )


def _end(act: str, name: str, place: int | None = None) -> Markup:
    said = {"title": act.capitalize(), "aria_label": f"{act.capitalize()} {name}"}
    return tag("button", "\u00d7", type="button", class_="kv-remove", data_act=act, data_id=place, **said)


def _step(name: str, place: int, reached: int, file: IngestProgress) -> Markup:
    now = place == reached
    complete = place < reached or (now and file.total > 0 and file.done >= file.total)
    counted = f" {file.done}/{file.total}" if now and file.total > 1 else ""
    look = "kv-complete" if complete else "kv-now" if now else "kv-ahead"
    return tag("li", name, counted, class_=look, aria_current="step" if now else None)


def _document(document: Document, doomed: bool) -> Markup:
    pages = None if document.pages is None else count(document.pages, "page")
    facts = (size(document.size_bytes), pages, count(document.chunks, "passage"), day(document.added_at))
    name = tag("bdi", document.name, class_="kv-clip", title=document.name)
    if doomed:
        question = tag("p", "Delete ", name, " and everything computed from it?")
        yes = _button("confirm", document, "Delete", class_="kv-danger")
        return tag("li", question, tag("div", yes, _button("keep", document, "Keep it")), class_="kv-doomed")
    return tag(
        "li",
        tag("div", name, tag("small", *(tag("span", fact) for fact in facts if fact)), class_="kv-facts"),
        _button("delete", document, "\u00d7", class_="kv-remove", aria_label=f"Delete {document.name}", title="Delete"),
    )


def _button(act: str, document: Document, label: str, **attributes: object) -> Markup:
    return tag("button", label, type="button", data_act=act, data_id=document.id, **attributes)
