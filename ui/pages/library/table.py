"""HTML of the document table: one row per document, its actions and confirmations, and its passages."""

from collections.abc import Mapping, Sequence, Set

from backend.interface.library import DocumentUsage, Passage, WatchedChange, WatchedFolder
from store.names import MAX_LABEL_LENGTH
from store.types import Document, Excerpt
from ui.components.document_picker import collection_sizes
from ui.components.excerpt import page_label, render_excerpt
from ui.components.tiers import TIERS
from ui.format import UNKNOWN, count, day, size
from ui.html import Markup, button, icon, join, tag
from ui.pages.library.view import (
    AGES,
    CACHED,
    COLUMNS,
    PAGE_SIZE,
    View,
    existing_languages,
    existing_types,
    filter_and_sort,
)

PASSAGES_PER_PAGE = 20
MAX_ERRORS = 5  # of a watched folder
MAX_CHANGES = 5  # likewise, and those that can be undone, up to four times as many
_CHANGES = {"added": "added", "replaced": "replaced its former version", "undone": "former version restored"}
_EXPORT = "All documents and settings in one file; `python app.py --import FILE` adds them to another library"
_RATINGS = "Rated answers with questions and passages, as an evaluation file for `python -m bench quality`"
_ASK = {1: "Summarize", 2: "Compare"}  # what can be asked about so many documents by one click
# Paths of icons.
_CHEVRON = "M9 6l6 6-6 6"
_PENCIL = "M4 20l1-4.2L16.2 4.6a1.7 1.7 0 0 1 2.4 0l.8.8a1.7 1.7 0 0 1 0 2.4L8.2 19z M14.5 6.5l3 3"
_CIRCLE = "M20 5v5h-5 M4 19v-5h5 M5.6 9A7 7 0 0 1 18 7.6L20 10 M18.4 15A7 7 0 0 1 6 16.4L4 14"
_BIN = "M4.5 7h15 M9.5 7V4.8h5V7 M6.5 7l.8 12.2h9.4L17.5 7 M10.3 10.5v5.5 M13.7 10.5v5.5"
_ACTIONS = (  # act, verb, tooltip, icon
    ("rename", "Rename", "Rename", _PENCIL),
    ("reindex", "Re-index", "Re-index: chunk, embed and compute it again", _CIRCLE),
    ("delete", "Delete", "Delete", _BIN),
)


def question_about(documents: Sequence[Document]) -> str:
    """Return the question that the button for these documents asks; empty if there is none for so many."""
    names = [document.name for document in sorted(documents, key=lambda document: document.added_at)]
    if len(names) == 1:
        return f"Summarize {names[0]}."
    return f"Compare {names[0]} and {names[1]}." if len(names) == 2 else ""


def render_summary(documents: Sequence[DocumentUsage], kv_token_bytes: int = 0, has_ratings: bool = False) -> Markup:
    """Return one line about all documents, and why their KV is large if its size per token is known.

    With links that export the documents and the ratings. Empty without documents.
    """
    if not documents:
        return Markup("")
    about_kv = None
    if kv_token_bytes:
        about_kv = (
            f"Cached keys and values (KV) are much larger than the text: {size(kv_token_bytes)} for each token, which "
            "is about four letters. Memory and disk can each have a copy."
        )
    passages = sum(each.document.num_chunks for each in documents)
    text = f"{count(len(documents), 'document')}, {count(passages, 'passage')}."
    if outdated := sum(each.needs_rechunk for each in documents):
        text += f" {count(outdated, 'document')} chunked with other settings."
    export = tag("a", "Export", href="library.zip", download="kvscope-library.zip", title=_EXPORT)
    ratings = tag("a", "Export ratings", href="ratings.jsonl", download="kvscope-ratings.jsonl", title=_RATINGS)
    summary = tag("p", text, " ", export, join(" ", ratings) if has_ratings else None, class_="kv-muted")
    return join(summary, tag("p", about_kv, class_="kv-muted") if about_kv else None)


def render_watched(folders: Sequence[WatchedFolder]) -> Markup | None:
    """Return a line for each watched folder, with what went wrong; None if there are none."""
    return join(*map(_watched_folder, folders)) if folders else None


def _watched_folder(folder: WatchedFolder) -> Markup:
    state = "not found, perhaps not mounted" if folder.is_missing else count(folder.num_files, "file")
    line = tag("p", "Watched folder ", tag("bdi", folder.path), f": {state}", class_="kv-muted")
    errors = [tag("p", error, class_="kv-note", dir="auto") for error in folder.errors[:MAX_ERRORS]]
    more = len(folder.errors) - MAX_ERRORS
    gone = None
    if folder.gone:
        rest = "its document is" if len(folder.gone) == 1 else "their documents are"
        text = f"{count(len(folder.gone), 'file')} deleted; {rest} still here. "
        gone = tag("p", text, button("gone", "", "Select"), class_="kv-note")
    further = tag("p", f"{more} more could not be added.", class_="kv-note") if more > 0 else None
    latest = folder.changes[:MAX_CHANGES]
    latest += tuple(each for each in folder.changes[MAX_CHANGES:] if each.can_undo)[: 3 * MAX_CHANGES]
    changes = tag("ul", *map(_watched_change, latest), class_="kv-changes", aria_label="Last changes")
    return join(line, *errors, further, gone, changes if latest else None)


def _watched_change(change: WatchedChange) -> Markup:
    name = tag("bdi", change.name)
    undo = button("undo", change.id, "Undo", aria_label=f"Undo: {change.name}") if change.can_undo else None
    return tag("li", tag("span", day(change.at)), " ", name, " ", tag("span", _CHANGES.get(change.kind)), " ", undo)


def render_table(
    documents: Sequence[DocumentUsage], view: View, preview: Markup | None = None, not_ready: str = ""
) -> Markup:
    """Return the table with the open document's passages, or a hint; `not_ready` says why there are no documents."""
    if not documents:
        hint = not_ready or "Drop files on the box above or click it to choose some, then ask about them."
        return tag("div", tag("p", tag("b", "No documents yet")), tag("p", hint), class_="kv-none")
    rows = filter_and_sort(documents, view)
    visible = rows[: view.limit]
    bar = join(_filters(documents, view), _selection_bar(documents, view, {each.document.id for each in visible}))
    if not rows:
        named = join(" and has a name with ", tag("bdi", view.filter)) if view.filter.strip() else None
        hint = join("No document matches the filters", named, ". Change a filter to see more.")
        return join(bar, tag("p", hint, class_="kv-none"))
    bodies = [_document_row(each, view, preview) for each in visible]
    remaining = len(rows) - view.limit
    label = f"Show {min(remaining, PAGE_SIZE)} more of {remaining}"
    more = button("more", "", label, class_="kv-more") if remaining > 0 else None
    return join(bar, tag("table", _header(view, rows), *bodies, class_="kv-library", aria_label="Documents"), more)


def render_preview(passages: Sequence[Passage], first: int, total: int, excerpt: Excerpt | None) -> Markup:
    """Return a pager and passages from number `first` of `total`, one of them in its surrounding text."""
    end = first + len(passages)
    position = f"Passages {first + 1:,}\u2013{end:,} of {total:,}" if passages else "No passages"
    previous = button("page", max(0, first - PASSAGES_PER_PAGE), "Previous") if first else None
    following = button("page", end, "Next") if end < total else None
    pager = tag("div", tag("span", position, role="status"), previous, following, class_="kv-pager")
    cards = []
    previous_end = 0
    for passage in passages:
        is_in_context = excerpt is not None and excerpt.chunk.id == passage.chunk.id
        cards.append(_card(passage, previous_end, excerpt if is_in_context else None))
        previous_end = passage.chunk.end
    return tag("div", pager, tag("ol", *cards, class_="kv-cards"), class_="kv-preview")


def _header(view: View, rows: Sequence[DocumentUsage]) -> Markup:
    all_selected = all(each.document.id in view.selected for each in rows)
    cells = []
    for name, (heading, tooltip, _) in COLUMNS.items():
        arrow, order = "", "none"
        if name == view.order:
            arrow, order = (" ↓", "descending") if view.descending else (" ↑", "ascending")
        sort = button("sort", name, heading + arrow, title=tooltip)
        cells.append(tag("th", sort, scope="col", aria_sort=order, class_=f"kv-col-{name}"))
    select = tag("th", _checkbox("all", "", all_selected, "Select all documents"), class_="kv-col-choose")
    actions = tag("th", tag("span", "Actions", class_="kv-visually-hidden"))
    return tag("thead", tag("tr", select, *cells, actions))


def _selection_bar(documents: Sequence[DocumentUsage], view: View, visible_ids: Set[str]) -> Markup:
    """Return the actions for all selected documents, or the confirmation of a deletion that is not below a row."""
    pending = [each for each in documents if each.document.id in view.pending_delete]
    if pending and (len(view.pending_delete) > 1 or view.pending_delete[0] not in visible_ids):
        what = tag("bdi", pending[0].document.name) if len(pending) == 1 else f"{len(pending)} documents"
        question = _confirm_delete(join(what, _hidden_note(pending, visible_ids)), pending, view)
        return tag("div", question, class_="kv-chosen kv-confirm-delete")
    selected = [each for each in documents if each.document.id in view.selected]
    if not selected:
        return Markup("")
    label = tag("span", f"{len(selected)} selected{_hidden_note(selected, visible_ids)}", role="status")
    if view.naming:
        return tag("div", label, *_name_collection(documents), class_="kv-chosen")
    return tag(
        "div",
        label,
        button("name", "", "Add to collection\u2026"),
        *(
            button("leave", name, "Remove from ", tag("bdi", name))
            for name in collection_sizes(each.document for each in selected)
        ),
        button("ask", "", _ASK[len(selected)]) if len(selected) in _ASK else None,
        button("reindex", "", "Re-index"),
        button("delete", "", "Delete", class_="kv-danger"),
        button("none", "", "Clear selection"),
        class_="kv-chosen",
    )


def _filters(documents: Sequence[DocumentUsage], view: View) -> Markup:
    """Return a choice of file type and of language, if there are several, and of date, and a button per collection."""
    types, languages = existing_types(documents), existing_languages(documents)
    choices = []
    if len(types) > 1:
        choices.append(
            _choice("type", "File type", {"": "All file types"} | {each: each for each in types}, view.file_type)
        )
    if languages:
        labels = {"": "All languages"} | {each: each for each in languages}
        choices.append(_choice("language", "Language", labels, view.language))
    choices.append(_choice("age", "Date added", {age: label for age, (label, _) in AGES.items()}, view.age))
    collections = [
        button(
            "collection",
            name,
            tag("bdi", name),
            " ",
            tag("small", size),
            aria_pressed=str(name == view.collection).lower(),
        )
        for name, size in collection_sizes(each.document for each in documents).items()
    ]
    named = tag("div", tag("span", "Collections"), *collections) if collections else None
    return tag("div", *choices, named, class_="kv-filters")


def _choice(act: str, label: str, options: Mapping[str, str], value: str) -> Markup:
    """Return a native select; `options` are labels by value."""
    rows = (tag("option", text, value=key, selected=key == value) for key, text in options.items())
    return tag("select", *rows, data_act=act, data_id="", aria_label=label)


def _name_collection(documents: Sequence[DocumentUsage]) -> list[Markup]:
    """Return a box for the name of a collection, and a button for each existing one."""
    attributes = {
        "maxlength": MAX_LABEL_LENGTH,
        "placeholder": "New collection",
        "aria_label": "Name of the collection",
    }
    existing = collection_sizes(each.document for each in documents)
    return [
        *(button("join", name, tag("bdi", name)) for name in existing),
        tag("input", type="text", data_act="join", data_id="", data_focus=True, **attributes),
        button("join", "", "Add", class_="kv-primary"),
        button("keep", "", "Cancel"),
    ]


def _hidden_note(documents: Sequence[DocumentUsage], visible_ids: Set[str]) -> str:
    """Return how many of the documents have no visible row, in parentheses; '' if none."""
    hidden = sum(each.document.id not in visible_ids for each in documents)
    if not hidden:
        return ""
    return " (not shown)" if hidden == len(documents) else f" ({hidden} of them not shown)"


def _document_row(usage: DocumentUsage, view: View, preview: Markup | None) -> Markup:
    document = usage.document
    is_open = view.open == document.id
    is_selected = document.id in view.selected
    actions = (
        button(act, document.id, icon(path), title=tooltip, aria_label=f"{verb} {document.name}")
        for act, verb, tooltip, path in _ACTIONS
    )
    cells = [
        tag("td", _checkbox("choose", document.id, is_selected, f"Select {document.name}"), class_="kv-col-choose"),
        tag("td", _name(usage, view, is_open), class_="kv-col-name"),
        tag("td", size(document.size_bytes), class_="kv-col-size"),
        _number_cell(document.num_pages, "page"),
        _number_cell(document.num_chunks, "passage"),
        tag("td", _cached(usage), class_="kv-col-computed"),
        tag("td", day(document.added_at), class_="kv-col-added"),
        tag("td", *actions, class_="kv-col-actions"),
    ]
    below = None
    if view.pending_delete == (document.id,):
        below = tag("div", _confirm_delete(tag("bdi", document.name), [usage], view), class_="kv-confirm-delete")
    elif is_open:
        below = preview
    return tag(
        "tbody",
        tag("tr", *cells, class_="kv-chosen-row" if is_selected else None),
        tag("tr", tag("td", below, colspan=8), class_="kv-below") if below else None,
    )


def _number_cell(number: int | None, noun: str) -> Markup:
    """Return a cell with a number; its noun is visible where the layout has no headings."""
    if number is None:
        return tag("td", UNKNOWN, class_=f"kv-col-{noun}s kv-without")
    figure, _, unit = count(number, noun).partition("\u00a0")
    return tag("td", figure, tag("span", f"\u00a0{unit}"), class_=f"kv-col-{noun}s")


def _name(usage: DocumentUsage, view: View, is_open: bool) -> Markup:
    document = usage.document
    if view.renaming == document.id:
        attributes = {"value": document.name, "maxlength": 120, "aria_label": f"New name of {document.name}"}
        box = tag("input", type="text", data_act="save", data_id=document.id, data_focus=True, **attributes)
        save = button("save", document.id, "Save", class_="kv-primary")
        return tag("div", box, save, button("keep", "", "Cancel"), class_="kv-rename")
    state = {"aria_expanded": "true" if is_open else "false", "title": "Show its passages"}
    toggle = button("open", document.id, icon(_CHEVRON), tag("bdi", document.name), class_="kv-name", **state)
    notes = [document.warning] if document.warning else []
    if usage.needs_rechunk:
        notes.append("Chunked with other settings than the current ones. Re-index it to apply them.")
    if document.is_outdated:
        remedy = "Delete it and add the file again" if document.num_pages else "Re-index it"
        notes.append(f"Added by an earlier version. {remedy}, so that tables and headings are recognized.")
    collections = tag("p", *(tag("bdi", name, class_="kv-badge") for name in document.collections))
    warnings = [tag("p", note, class_="kv-note", dir="auto") for note in notes]
    return join(toggle, collections if document.collections else None, *warnings)


def _cached(usage: DocumentUsage) -> Markup:
    """Return the size of a document's cached KV, one line per tier."""
    if usage.bytes_by_tier is None:
        return tag("span", "counting…", class_="kv-without", title=CACHED)
    by_tier = [
        tag("div", f"{size(usage.bytes_by_tier[tier])} ", tag("small", label.location))
        for tier, label in TIERS.items()
        if usage.bytes_by_tier.get(tier)
    ]
    if not by_tier:
        return tag("span", "nothing", class_="kv-without", title="The first question computes what it needs.")
    return tag("div", *by_tier, title=CACHED)


def _confirm_delete(what: object, documents: Sequence[DocumentUsage], view: View) -> Markup:
    passages = count(sum(each.document.num_chunks for each in documents), "passage")
    effect = (
        f"This removes {passages} and frees {size(view.freed_bytes)} of cached keys and values in memory and on disk."
    )
    delete = button("confirm", "", "Delete", class_="kv-danger", data_focus=True)
    return join(tag("p", "Delete ", what, "? ", effect), tag("div", delete, button("keep", "", "Cancel")))


def _checkbox(act: str, target: str, checked: bool, label: str) -> Markup:
    return tag("input", type="checkbox", data_act=act, data_id=target, checked=checked, aria_label=label)


def _card(passage: Passage, previous_end: int, excerpt: Excerpt | None) -> Markup:
    """Return one passage; its overlap with the previous one, which ends at `previous_end`, is paler."""
    chunk = passage.chunk
    state = {"aria_pressed": "true" if excerpt else "false", "title": "Show the surrounding text"}
    header = tag(
        "div",
        tag("b", f"{chunk.index + 1:,}"),
        tag("span", f"Page {chunk.page}") if chunk.page else None,
        tag("span", count(passage.tokens, "token"), title="Tokens of the main model"),
        tag(
            "span",
            f"cached {TIERS[passage.tier].location}" if passage.tier else "not cached",
            class_="kv-badge kv-tier-host" if passage.tier else "kv-badge",
            title="Where its keys and values (KV), which questions reuse, are cached.",
        ),
        button("place", chunk.id, "In context", **state),
        class_="kv-card-line",
    )
    if excerpt:
        body = tag("figure", tag("figcaption", page_label(excerpt)), render_excerpt(excerpt))
        return tag("li", header, body, class_="kv-chunk")
    overlap = max(0, previous_end - chunk.start)
    repeated = tag("span", chunk.text[:overlap], translate="no")
    repeated = tag("span", repeated, class_="kv-overlap", title="Repeated from the previous passage")
    new = tag("span", chunk.text[overlap:], translate="no")
    text = tag("div", repeated if overlap else None, new, class_="kv-chunk-text", dir="auto")
    return tag("li", header, text, class_="kv-chunk")
