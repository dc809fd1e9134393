"""The bar over a thread: which chat this is, the others in this browser, and what can be done with it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ui.format import count, day
from ui.html import Markup, join, tag
from ui.pages.ask.chats.chat import MOST_TURNS, Chat

_TROUBLE = {
    "full": "This browser's storage is full: this chat is not kept. Export it before you leave it, or delete old chats "
    "in another tab; the next answer then keeps all of it.",
    "off": "This browser's storage is switched off: this chat is not kept. Export it before you leave it.",
    "copied": "Another tab has gone on with this chat. What is here was kept as a copy of its own.",
}
_LONG = (
    f"This chat holds {MOST_TURNS} questions, the most that are kept of one: the next takes the place of the oldest. "
    "Export it, or start a new chat."
)
# Buttons inside our own HTML. Chats live in this browser: what a button needs of them, the script puts into the event.
ON_CLICK = """
element.addEventListener('click', (event) => {
    const button = event.target.closest('button[data-act]');
    if (!button) return;
    const told = kvscopeChats.act(button, element);
    if (told) trigger('click', told);
});
element.addEventListener('submit', (event) => {
    event.preventDefault();
    trigger('click', kvscopeChats.rename(event.target));
});
"""


@dataclass(frozen=True, slots=True)
class Listed:
    """A chat of this browser, as the list shows it."""

    id: str
    title: str
    at: float
    turns: int

    @classmethod
    def all(cls, told: Any) -> list["Listed"]:
        """Return what a browser told of its chats; what is not a chat is left out."""
        read = (cls._of(row) for row in (told if isinstance(told, list) else []))
        return [row for row in read if row]

    @classmethod
    def _of(cls, row: Any) -> "Listed | None":
        try:
            return cls(str(row["id"]), str(row["title"]), float(row["at"]), int(row["turns"]))
        except (TypeError, KeyError, ValueError, OverflowError):
            return None


def chatbar(chat: Chat, others: Iterable[Listed], trouble: str = "") -> Markup:
    """Return the bar. Renaming and deleting ask in place, in the browser; nothing is rendered twice for them.

    trouble  what the browser says of the last time it was to keep a chat: a key of `_TROUBLE`, or nothing
    """
    listed = list(others)
    chats = (
        tag("ul", *(_row(each, each.id == chat.id) for each in listed), class_="kv-chat-list")
        if listed
        else tag("p", "Chats are kept in this browser only. There is none yet.", class_="kv-muted")
    )
    said = _TROUBLE.get(trouble) or (_LONG if chat.full else None)
    return join(_bar(chat, chats), tag("p", said, class_="kv-warning", role="alert") if said else None)


def busybar(chat: Chat) -> Markup:
    """Return the bar without its list, out of reach: an answer is being written into this chat."""
    return _bar(chat, None, inert=True)


def _bar(chat: Chat, chats: Markup | None, inert: bool = False) -> Markup:
    saved = bool(chat.turns)
    return tag(
        "nav",
        tag(
            "details",
            tag("summary", tag("bdi", chat.name, class_="kv-clip"), title="All chats in this browser"),
            chats,
            class_="kv-chats",
        ),
        tag(
            "form",
            tag("input", type="text", name_="title", value=chat.name, maxlength=120, aria_label="Name of this chat"),
            tag("button", "Save", type="submit"),
            data_id=chat.id,
            hidden=True,
        ),
        tag(
            "div",
            *(
                (
                    _button("new", "New chat", title="Start over; this chat stays in the list"),
                    _button("rename", "Rename"),
                    _button("markdown", "Export", title="Download this chat as Markdown"),
                    _button("json", "JSON", title="Download this chat as JSON"),
                    _button("delete", "Delete", data_id=chat.id, title="Remove this chat from this browser"),
                )
                if saved
                else ()
            ),
            class_="kv-chat-acts",
        ),
        aria_label="Chats",
        class_="kv-chatbar",
        inert=inert,
    )


def _row(each: Listed, here: bool) -> Markup:
    about = tag("small", f"{count(each.turns, 'question')}, {day(each.at)}")
    name = tag("bdi", each.title or "Untitled", class_="kv-clip")
    return tag("li", _button("open", name, about, data_id=each.id, aria_current="true" if here else None))


def _button(act: str, *label: object, **attributes: object) -> Markup:
    return tag("button", *label, type="button", data_act=act, **attributes)
