"""HTML from data: the only place where strings become elements of the page (figures: `ui/figures/labels.py`).

`gr.HTML` shows what it is given, scripts and all. Document texts, file names, questions and answers are data, so
`tag` escapes every child that is not already `Markup`; no other module writes an element around data.
"""

import html
import re

# What a browser would hide or obey: control characters, and the two marks that turn the reading direction by force.
_UNSHOWABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202d\u202e\ufffe\uffff]|[\ud800-\udfff]")
_ALONE = {"br", "hr", "input"}


class Markup(str):
    """A string that is HTML already. Made here and nowhere else."""

    __slots__ = ()


def text(value: object) -> Markup:
    """Return data as markup that shows it; what cannot be shown becomes U+FFFD."""
    plain = str(value).replace("\r\n", "\n").replace("\r", "\n")
    return Markup(html.escape(_UNSHOWABLE.sub("\ufffd", plain), quote=True))


def tag(name: str, *children: object, **attributes: object) -> Markup:
    """Return one element. `class_` is class, `aria_label` is aria-label; None and False leave an attribute out."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{text("" if value is True else value)}"'
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if name in _ALONE:
        return Markup(f"<{name}{written}>")
    return Markup(f"<{name}{written}>{join(*children)}</{name}>")


def join(*children: object) -> Markup:
    """Lay children side by side: Markup as it is, None not at all, everything else as text."""
    return Markup(
        "".join(child if isinstance(child, Markup) else text(child) for child in children if child is not None)
    )
