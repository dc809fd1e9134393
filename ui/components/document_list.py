"""Documents as HTML: progress of files being added, and the list in the sidebar."""

from collections.abc import Iterable, Sequence

from backend.interface.backend import TierUsage
from backend.interface.library import IngestProgress
from store.types import Document
from ui.components.tiers import TIERS
from ui.format import count, day, size
from ui.html import Markup, button, join, tag

# For the component that shows `render_progress`: a finished file can be dismissed in the browser.
DISMISS = """
element.addEventListener('click', (event) => event.target.closest('[data-act=dismiss]')?.closest('li').remove());
"""
_STEPS = ("parsed", "chunked", "embedded", "prefilled")
_EMPTY = "No documents yet. Drop files on the box above or click it to choose some, then ask about them."
_LOADING = "Your documents appear here once KVScope is ready."
_USAGE = "Keys and values (KV) computed for your passages. After clearing, KVScope recomputes them when needed."


def render_progress(files: Iterable[IngestProgress], cancel: bool = False) -> Markup:
    """Return one line per file with its four steps, and its error or warning.

    cancel  whether each unfinished file gets its own cancel button
    """
    rows = [_progress_row(file, index if cancel else None) for index, file in enumerate(files)]
    return tag("ul", *rows, class_="kv-files", aria_label="Files being added") if rows else Markup("")


def render_document_list(
    documents: Iterable[Document], usage: Sequence[TierUsage] = (), pending_delete: str = "", loading: bool = False
) -> Markup:
    """Return the documents in the given order, and their cache usage.

    pending_delete  id of the document whose deletion has to be confirmed
    loading         whether the library is still being opened
    """
    rows = [_document_row(document, document.id == pending_delete) for document in documents]
    if not rows:
        return tag("p", _LOADING if loading else _EMPTY, class_="kv-muted kv-empty")
    return join(tag("ul", *rows, class_="kv-document-list", aria_label="Documents"), _usage_line(usage))


def _usage_line(usage: Sequence[TierUsage]) -> Markup | None:
    """Return the cache size by tier with a button that clears it; None if the cache is empty."""
    sizes = [f"{size(tier.size_bytes)} {TIERS[tier.tier].location}" for tier in usage if tier.size_bytes]
    if not sizes:
        return None
    return tag(
        "div",
        tag("small", f"Cache: {', '.join(sizes)}", title=_USAGE),
        button("clear", "", "Clear", title=_USAGE),
        class_="kv-document-list kv-kept",
    )


def _progress_row(file: IngestProgress, index: int | None) -> Markup:
    failed = file.stage == "failed"
    done = file.stage == "done"
    reached = len(_STEPS) if done else _STEPS.index(file.stage) if file.stage in _STEPS else -1
    message = tag("p", file.message, class_="kv-error" if failed else "kv-warning", dir="auto")
    close = None
    if not (failed or done):
        close = None if index is None else _close_button("cancel", file.name, index)
    elif failed or file.message:  # a file that was added without a warning disappears by itself
        close = _close_button("dismiss", file.name)
    return tag(
        "li",
        tag("div", tag("bdi", file.name, class_="kv-clip", title=file.name), close, class_="kv-file-head"),
        None if failed else tag("ol", *(_step(name, step, reached, file) for step, name in enumerate(_STEPS))),
        message if file.message else None,
        class_=f"kv-file kv-file-{'failed' if failed else 'done' if done else 'busy'}",
    )


def _close_button(act: str, name: str, index: int | None = None) -> Markup:
    label = act.capitalize()
    return button(act, index, "\u00d7", class_="kv-remove", title=label, aria_label=f"{label} {name}")


def _step(name: str, step: int, reached: int, file: IngestProgress) -> Markup:
    is_current = step == reached
    is_complete = step < reached or (is_current and file.total > 0 and file.done >= file.total)
    progress = f" {file.done}/{file.total}" if is_current and file.total > 1 else ""
    look = "kv-complete" if is_complete else "kv-now" if is_current else "kv-ahead"
    return tag("li", name, progress, class_=look, aria_current="step" if is_current else None)


def _document_row(document: Document, pending_delete: bool) -> Markup:
    name = tag("bdi", document.name, class_="kv-clip", title=document.name)
    if pending_delete:
        question = tag("p", "Delete ", name, " and everything computed from it?")
        confirm = button("confirm", document.id, "Delete", class_="kv-danger")
        return tag(
            "li", question, tag("div", confirm, button("keep", document.id, "Cancel")), class_="kv-confirm-delete"
        )
    pages = None if document.num_pages is None else count(document.num_pages, "page")
    facts = (size(document.size_bytes), pages, count(document.num_chunks, "passage"), day(document.added_at))
    delete = button(
        "delete", document.id, "\u00d7", class_="kv-remove", aria_label=f"Delete {document.name}", title="Delete"
    )
    return tag(
        "li",
        tag("div", name, tag("small", *(tag("span", fact) for fact in facts if fact)), class_="kv-facts"),
        delete,
    )
