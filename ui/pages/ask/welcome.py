"""What an empty page says: what it is for, one click to try it, and what the colours will mean."""

from ui.html import Markup, join, tag

_PROMISE = "Questions to your own documents, answered on this machine. What was read once is not read again."
_TOUR = (
    ("Abc", "kv-plain", "Text whose keys and values were kept from an earlier reading, and are used again."),
    ("Abc", "kv-fresh", "Text that was computed anew for this question, because a small model looked at it."),
    ("1", "kv-cite", "Where the answer has it from. Click it to see the passage on its page."),
    ("memory", "kv-badge", "Which tier the passage came from: memory, disk, or computed just now."),
)


def promise() -> Markup:
    """Return the first sentence of an empty page."""
    return tag("p", _PROMISE, class_="kv-promise")


def tour() -> Markup:
    """Return the short tour: what each colour of an answer means."""
    rows = (
        tag(
            "div",
            tag("dt", tag("mark" if look == "kv-fresh" else "span", word, class_=look)),
            tag("dd", meaning),
        )
        for word, look, meaning in _TOUR
    )
    last = "Move Recompute % and press Retry: more is closer to a full reading, less is faster. The bars say why."
    return join(
        tag("h2", "What the colours mean"), tag("dl", *rows, class_="kv-tour"), tag("p", last, class_="kv-muted")
    )
