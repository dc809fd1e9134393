"""The empty Ask page: what the app does, and what the colours of an answer mean."""

from ui.html import Markup, join, tag

_TAGLINE = "Ask questions about your own documents, on this machine. Each passage is processed once and reused."
_LEGEND = (
    ("Abc", "kv-plain", "Reused: the keys and values (KV) of this text come from the cache."),
    ("Abc", "kv-fresh", "Recomputed for this question, because the auxiliary model selected it."),
    ("1", "kv-cite", "Source of this statement. Click it to see the passage on its page."),
    ("memory", "kv-badge", "Cache tier of the passage: memory, disk, or computed just now."),
)
_TIP = "Move Recompute % and press Retry: higher is closer to full prefill, lower is faster."


def render_tagline() -> Markup:
    """Return the sentence at the top of an empty page."""
    return tag("p", _TAGLINE, class_="kv-tagline")


def render_legend() -> Markup:
    """Return the legend of an answer's colours."""
    rows = (
        tag(
            "div",
            tag("dt", tag("mark" if css_class == "kv-fresh" else "span", example, class_=css_class)),
            tag("dd", meaning),
        )
        for example, css_class, meaning in _LEGEND
    )
    return join(
        tag("h2", "What the colours mean"),
        tag("dl", *rows, class_="kv-welcome-legend"),
        tag("p", _TIP, class_="kv-muted"),
    )
