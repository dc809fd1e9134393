"""The list of the Library page as HTML: a row for each document, what it takes, and what can be done with it."""

from collections.abc import Sequence, Set
from dataclasses import dataclass

from backend.interface.library import DocumentUsage
from ui.components.document_list import PLACES
from ui.format import UNKNOWN, count, day, size
from ui.html import Markup, join, tag
from ui.pages.library.preview import Preview

AT_ONCE = 50  # rows drawn before a person asks for more
COMPUTED = "Keys and values computed for its passages, in all places together. Questions reuse them."
COLUMNS = {  # name -> (heading, what it means)
    "name": ("Name", "Sort by name"),
    "size": ("Size", "Size of the file"),
    "pages": ("Pages", "Pages, where the format has any"),
    "passages": ("Passages", "Pieces of the text that a search finds and a question reuses"),
    "computed": ("Computed", COMPUTED),
    "added": ("Added", "Day it was added"),
}
_PENCIL = "M4 20l1-4.2L16.2 4.6a1.7 1.7 0 0 1 2.4 0l.8.8a1.7 1.7 0 0 1 0 2.4L8.2 19z M14.5 6.5l3 3"
_AGAIN = "M20 5v5h-5 M4 19v-5h5 M5.6 9A7 7 0 0 1 18 7.6L20 10 M18.4 15A7 7 0 0 1 6 16.4L4 14"
_BIN = "M4.5 7h15 M9.5 7V4.8h5V7 M6.5 7l.8 12.2h9.4L17.5 7 M10.3 10.5v5.5 M13.7 10.5v5.5"
_OPEN = "M9 6l6 6-6 6"


@dataclass(frozen=True, slots=True)
class View:
    """What one session sees of the list: filter, order, and what is open or waits for a yes.

    doomed  documents that wait for a yes to be deleted, and `freed` bytes with them
    open    the document whose passages are shown, from number `first`; `placed` is shown where it stands
    """

    filter: str = ""
    order: str = "added"
    descending: bool = True
    limit: int = AT_ONCE
    open: str = ""
    first: int = 0
    placed: str = ""
    renaming: str = ""
    doomed: tuple[str, ...] = ()
    freed: int = 0
    chosen: tuple[str, ...] = ()


def arranged(holdings: Sequence[DocumentUsage], view: View) -> list[DocumentUsage]:
    """Return the documents that the filter lets through, in the view's order."""
    words = view.filter.casefold().split()
    found = [held for held in holdings if all(word in held.document.name.casefold() for word in words)]
    keys = {
        "name": lambda held: held.document.name.casefold(),
        "size": lambda held: held.document.size_bytes,
        "pages": lambda held: held.document.pages or 0,
        "passages": lambda held: held.document.chunks,
        "computed": lambda held: held.size_bytes,
        "added": lambda held: held.document.added_at,
    }
    return sorted(found, key=keys[view.order], reverse=view.descending)


def summary(holdings: Sequence[DocumentUsage]) -> Markup:
    """Return one line about all documents together; nothing without any."""
    if not holdings:
        return Markup("")
    passages = sum(held.document.chunks for held in holdings)
    said = f"{count(len(holdings), 'document')}, {count(passages, 'passage')}"
    outdated = sum(held.needs_rechunk for held in holdings)
    changed = f" {count(outdated, 'document')} cut with other settings." if outdated else ""
    return tag("p", f"{said}.{changed}", class_="kv-muted")


def listing(holdings: Sequence[DocumentUsage], view: View, preview: Preview | None = None, waiting: str = "") -> Markup:
    """Return the list, or what to do where it is empty.

    preview  the passages of the document that is open
    waiting  why there is nothing to show yet
    """
    if not holdings:
        return _empty(waiting)
    rows = arranged(holdings, view)
    shown = rows[: view.limit]
    bar = _chosen(holdings, view, {held.document.id for held in shown})
    if not rows:
        said = ("No name holds ", tag("bdi", view.filter), ". Clear the filter to see all.")
        return join(bar, tag("p", *said, class_="kv-none"))
    bodies = [_document(held, view, preview) for held in shown]
    rest = len(rows) - view.limit
    more = _button("more", "", f"Show {min(rest, AT_ONCE)} more of {rest}", class_="kv-more") if rest > 0 else None
    table = tag("table", _heading(view, rows), *bodies, class_="kv-holdings", aria_label="Documents")
    return join(bar, table, more)


def _empty(waiting: str) -> Markup:
    said = waiting or "Drop files on the box above, or click it to choose some. Then ask about them."
    return tag("div", tag("p", tag("b", "No documents yet")), tag("p", said), class_="kv-none")


def _heading(view: View, rows: Sequence[DocumentUsage]) -> Markup:
    every = all(held.document.id in view.chosen for held in rows)
    box = tag("input", type="checkbox", data_act="all", data_id="", checked=every, aria_label="Choose all documents")
    cells = []
    for name, (heading, meaning) in COLUMNS.items():
        mine = name == view.order
        arrow = (" ↓" if view.descending else " ↑") if mine else ""
        order = ("descending" if view.descending else "ascending") if mine else "none"
        button = _button("sort", name, heading + arrow, title=meaning)
        cells.append(tag("th", button, scope="col", aria_sort=order, class_=f"kv-col-{name}"))
    return tag("thead", tag("tr", tag("th", box, class_="kv-col-choose"), *cells, tag("th", _unseen("Actions"))))


def _chosen(holdings: Sequence[DocumentUsage], view: View, shown: Set[str]) -> Markup:
    """Return the bar over the list: what can be done with all that are chosen, or the question before deleting.

    shown  ids of the documents whose rows are drawn; the question about one of them stands below its row
    """
    doomed = [held for held in holdings if held.document.id in view.doomed]
    if doomed and (len(view.doomed) > 1 or view.doomed[0] not in shown):
        what = tag("bdi", doomed[0].document.name) if len(doomed) == 1 else f"{len(doomed)} documents"
        question = _question(join(what, _hidden(doomed, shown)), doomed, view)
        return tag("div", question, class_="kv-chosen kv-doomed")
    chosen = [held for held in holdings if held.document.id in view.chosen]
    if not chosen:
        return Markup("")
    return tag(
        "div",
        tag("span", f"{len(chosen)} chosen{_hidden(chosen, shown)}", role="status"),
        _button("reindex", "", "Re-index"),
        _button("delete", "", "Delete", class_="kv-danger"),
        _button("none", "", "Choose none"),
        class_="kv-chosen",
    )


def _hidden(some: Sequence[DocumentUsage], shown: Set[str]) -> str:
    """Return how many of these have no row now, as an apposition; nothing if all have."""
    hidden = sum(held.document.id not in shown for held in some)
    if not hidden:
        return ""
    return " (not shown)" if hidden == len(some) else f" ({hidden} of them not shown)"


def _document(held: DocumentUsage, view: View, preview: Preview | None) -> Markup:
    document = held.document
    opened = view.open == document.id
    box = tag(
        "input",
        type="checkbox",
        data_act="choose",
        data_id=document.id,
        checked=document.id in view.chosen,
        aria_label=f"Choose {document.name}",
    )
    cells = [
        tag("td", box, class_="kv-col-choose"),
        tag("td", _name(held, view, opened), class_="kv-col-name"),
        tag("td", size(document.size_bytes), class_="kv-col-size"),
        _counted(document.pages, "page"),
        _counted(document.chunks, "passage"),
        tag("td", _computed(held), class_="kv-col-computed"),
        tag("td", day(document.added_at), class_="kv-col-added"),
        tag("td", *_actions(held), class_="kv-col-actions"),
    ]
    row = tag("tr", *cells, class_="kv-chosen-row" if document.id in view.chosen else None)
    below = None
    if view.doomed == (document.id,):
        question = _question(tag("bdi", document.name), [held], view)
        below = tag("tr", tag("td", tag("div", question, class_="kv-doomed"), colspan=8), class_="kv-below")
    elif opened and preview is not None:
        below = tag("tr", tag("td", preview.drawn(), colspan=8), class_="kv-below")
    return tag("tbody", row, below)


def _counted(number: int | None, noun: str) -> Markup:
    """Return a cell with a number; its noun shows where the headings do not."""
    if number is None:
        return tag("td", UNKNOWN, class_=f"kv-col-{noun}s kv-without")
    figure, _, unit = count(number, noun).partition("\u00a0")
    return tag("td", figure, tag("span", f"\u00a0{unit}"), class_=f"kv-col-{noun}s")


def _name(held: DocumentUsage, view: View, opened: bool) -> Markup:
    document = held.document
    if view.renaming == document.id:
        named = {"value": document.name, "maxlength": 120, "aria_label": f"New name of {document.name}"}
        box = tag("input", type="text", data_act="save", data_id=document.id, data_focus=True, **named)
        buttons = (_button("save", document.id, "Save", class_="kv-primary"), _button("keep", "", "Cancel"))
        return tag("div", box, *buttons, class_="kv-rename")
    words = {"aria_expanded": "true" if opened else "false", "title": "Show its passages"}
    toggle = _button("open", document.id, join(_icon(_OPEN), tag("bdi", document.name)), class_="kv-name", **words)
    notes = [document.warning] if document.warning else []
    if held.needs_rechunk:
        notes.append("Cut with other settings than today's: re-index it to use them.")
    return join(toggle, *(tag("p", note, class_="kv-note", dir="auto") for note in notes))


def _computed(held: DocumentUsage) -> Markup:
    """Return what is computed of a document as one number, with its places as the title."""
    if held.tiers is None:
        return tag("span", "counting…", class_="kv-without", title=COMPUTED)
    places = [f"{size(held.tiers[tier])} {place}" for tier, place in PLACES.items() if held.tiers.get(tier)]
    if not places:
        return tag("span", "nothing", class_="kv-without", title="Its first question computes what it needs.")
    return tag("span", size(held.size_bytes), tag("small", " computed"), title=f"{', '.join(places)}. {COMPUTED}")


def _actions(held: DocumentUsage) -> list[Markup]:
    document = held.document
    again = "Re-index: cut, embed and compute it anew"
    return [
        _button("rename", document.id, _icon(_PENCIL), title="Rename", aria_label=f"Rename {document.name}"),
        _button("reindex", document.id, _icon(_AGAIN), title=again, aria_label=f"Re-index {document.name}"),
        _button("delete", document.id, _icon(_BIN), title="Delete", aria_label=f"Delete {document.name}"),
    ]


def _question(what: object, doomed: Sequence[DocumentUsage], view: View) -> Markup:
    passages = sum(held.document.chunks for held in doomed)
    frees = f"This frees {size(view.freed)} of computed keys and values and removes {count(passages, 'passage')}."
    yes = _button("confirm", "", "Delete", class_="kv-danger", data_focus=True)
    return join(tag("p", "Delete ", what, "? ", frees), tag("div", yes, _button("keep", "", "Keep")))


def _icon(path: str) -> Markup:
    line = {"fill": "none", "stroke": "currentColor", "stroke_width": "1.7", "stroke_linecap": "round"}
    return tag("svg", tag("path", d=path, **line), viewBox="0 0 24 24", width=18, height=18, aria_hidden="true")


def _button(act: str, name: str, label: object, **attributes: object) -> Markup:
    return tag("button", label, type="button", data_act=act, data_id=name, **attributes)


def _unseen(words: str) -> Markup:
    return tag("span", words, class_="kv-unseen")
