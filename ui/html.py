"""HTML built from data with markupsafe: the only place where strings become elements of the page.

`gr.HTML` renders its value as is, scripts included. Document texts, file names, questions and answers are data, so
`tag` escapes every child that is not `Markup`. For figures see `plotly_label`.
"""

import re

import markupsafe
from markupsafe import Markup

__all__ = [
    "Markup",
    "button",
    "error_box",
    "escape",
    "fact",
    "icon",
    "join",
    "printable",
    "progress_line",
    "swatch",
    "tag",
]

# Characters that a browser hides or obeys: controls, surrogates, and the two forced changes of reading direction.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202d\u202e\ufffe\uffff]|[\ud800-\udfff]")
_VOID_ELEMENTS = {"br", "hr", "img", "input", "link"}


def printable(value: object) -> str:
    """Return `value` as plain text in which each unprintable character is replaced by U+FFFD."""
    return _UNPRINTABLE.sub("\ufffd", str(value).replace("\r\n", "\n").replace("\r", "\n"))


def escape(value: object) -> Markup:
    """Return `value` as HTML text; Markup is returned unchanged."""
    return value if isinstance(value, Markup) else markupsafe.escape(printable(value))


def join(*children: object) -> Markup:
    """Concatenate children: Markup as is, None skipped, everything else as text."""
    return Markup("").join(escape(child) for child in children if child is not None)


def tag(name: str, *children: object, **attributes: object) -> Markup:
    """Return one element. `class_` becomes class, `aria_label` aria-label; None and False omit the attribute."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape("" if value is True else str(value))}"'
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if name in _VOID_ELEMENTS:
        return Markup(f"<{name}{written}>")
    return Markup(f"<{name}{written}>{join(*children)}</{name}>")


def button(act: str, target: object, *label: object, **attributes: object) -> Markup:
    """Return a button that the page's script turns into an event with `data-act` and `data-id` (`target`)."""
    return tag("button", *label, type="button", data_act=act, data_id=target, **attributes)


def error_box(message: str) -> Markup:
    """Return an error message in a red box."""
    return tag("p", message, class_="kv-error", role="alert", dir="auto")


def progress_line(message: str) -> Markup:
    """Return a line that says what is running, with a pulsing dot."""
    dot = tag("span", class_="kv-pulse", aria_hidden="true")
    return tag("p", dot, f"{message}…", class_="kv-state", role="status")


def fact(name: str, value: str, tooltip: str | None = None) -> Markup:
    """Return one name and value of a description list (`dl`)."""
    return tag("div", tag("dt", name), tag("dd", value), title=tooltip)


def swatch(colour: str) -> Markup:
    """Return a small square in a colour of a figure."""
    return tag("span", class_="kv-swatch", style=f"background:{colour}", aria_hidden="true")


def icon(path: str) -> Markup:
    """Return a line drawing of 18 pixels, given as an SVG path in a square of 24."""
    stroke = {"fill": "none", "stroke": "currentColor", "stroke_width": "1.7", "stroke_linecap": "round"}
    return tag("svg", tag("path", d=path, **stroke), viewBox="0 0 24 24", width=18, height=18, aria_hidden="true")
