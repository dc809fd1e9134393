"""The bar over a thread: which chat this is, the others in this browser, and what can be done with it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ui.ask.chat import Chat
from ui.markup import Markup, tag
from ui.words import count, day

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
        rows = told if isinstance(told, list) else []
        read = [row for row in rows if isinstance(row, dict) and {"id", "title", "at", "turns"} <= set(row)]
        try:
            return [cls(str(row["id"]), str(row["title"]), float(row["at"]), int(row["turns"])) for row in read]
        except (TypeError, ValueError):
            return []


def chatbar(chat: Chat, others: Iterable[Listed]) -> Markup:
    """Return the bar. Renaming and deleting ask in place, in the browser; nothing is rendered twice for them."""
    listed = list(others)
    saved = bool(chat.turns)
    return tag(
        "nav",
        tag(
            "details",
            tag("summary", tag("bdi", chat.name, class_="kv-clip"), title="All chats in this browser"),
            tag("ul", *(_row(each, each.id == chat.id) for each in listed), class_="kv-chat-list")
            if listed
            else tag("p", "Chats are kept in this browser only. There is none yet.", class_="kv-muted"),
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
    )


def _row(each: Listed, here: bool) -> Markup:
    about = tag("small", f"{count(each.turns, 'question')}, {day(each.at)}")
    name = tag("bdi", each.title or "Untitled", class_="kv-clip")
    return tag("li", _button("open", name, about, data_id=each.id, aria_current="true" if here else None))


def _button(act: str, *label: object, **attributes: object) -> Markup:
    return tag("button", *label, type="button", data_act=act, **attributes)
