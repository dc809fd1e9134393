"""An inspected question as HTML: what the colours mean, what is recomputed, the passages with their curves."""

from collections.abc import Iterable

import numpy as np

from engine.analysis.report import Excerpt
from engine.method import MethodInfo
from engine.request import Answer
from ui.figures.rank_scatter import scatter
from ui.figures.sparklines import peak, strips
from ui.format import UNKNOWN, count, percent
from ui.html import Markup, join, tag
from ui.pages.ask.metrics import numbers
from ui.pages.inspect.session import Held
from ui.pages.inspect.token_spans import CITED, RECOMPUTED, SINK, Fate, fates

_LOOKS = {RECOMPUTED: "kv-fresh", SINK: "kv-sink", CITED: "kv-quoted"}
_STATES = {"searching": "Searching", "reading": "Reading passages", "writing": "Writing"}
_SINK = (
    "A sink: a token that draws attention in many layers whatever is asked, often a word like 'the'. "
    "It gets at least 50 times its passage's median in at least a quarter of the layers."
)
_LEGEND = (
    ("", "reused", "Keys and values come from the cache, computed when the passage was first read."),
    (_LOOKS[RECOMPUTED], "recomputed", "Keys and values are computed anew for this question, seeing all passages."),
    (_LOOKS[SINK], "sink", _SINK),
    (_LOOKS[CITED], "cited", "The answer rests on this sentence. It shows after 'Apply'."),
)


def legend() -> Markup:
    """Return the four colours, each with what it means."""
    entries = (
        tag("li", tag("span", "Abc", class_=f"kv-swatch {look}".strip()), name, title=meaning, tabindex=0)
        for look, name, meaning in _LEGEND
    )
    return tag("ul", *entries, class_="kv-fates", aria_label="What the colours mean")


def summary(held: Held, method: MethodInfo, nominal: int) -> Markup:
    """Return how much the method recomputes, in large, and what it means for the passages."""
    taken, tokens = held.taken(method.name, nominal), held.found.tokens
    if taken is None:
        said = f"{method.label} decides while it computes. Press Apply to ask with it and see what it chose."
        return tag("div", _big(UNKNOWN, f"of {count(tokens, 'token')} recomputed"), tag("p", said, class_="kv-muted"))
    fresh, exact = int(taken.sum()), held.found.exact
    asked = f"asked for {percent(nominal / 100)}" if method.has_ratio else f"{method.label} has no ratio"
    first = "Passage 1 is exact" if exact == 1 else f"Passages 1 to {exact} are exact"
    stands = f"{first} as it stands: nothing before it is new." if exact == 1 else f"{first} as they stand."
    return tag(
        "div",
        _big(percent(fresh / tokens if tokens else 0, 1), f"{fresh:,} of {count(tokens, 'token')} recomputed, {asked}"),
        tag("p", stands, class_="kv-muted", title="Its keys and values equal those of a full reading.")
        if exact and method.has_ratio
        else None,
    )


def passages(held: Held, method: MethodInfo, nominal: int, only: int = 0) -> Markup:
    """Return the passages with their curves and marked text; `only` one of them, from 1, or all for 0."""
    found = held.found
    taken = held.taken(method.name, nominal)
    taken = np.zeros(found.tokens, dtype=bool) if taken is None else taken
    shown = [(rank, part) for rank, part in enumerate(found.parts, start=1) if only in (0, rank)]
    most = tuple(peak(values, [part for _, part in shown]) for values in (found.auxiliary, found.primary[-1]))
    cards = []
    for rank, part in shown:
        curves = strips(found.auxiliary[part], found.primary[-1][part], taken[part], (most[0], most[1]))
        quotes = [(start, end) for cited, start, end in held.cited if cited == rank]
        pieces, block = fates(found.excerpts[rank - 1], taken[part], found.sinks[part], quotes)
        cards.append(_card(rank, found.excerpts[rank - 1], curves, pieces, block, int(taken[part].sum())))
    return tag("ol", *cards, class_=f"kv-inspected{' kv-alone' if only else ''}")


def ranks(held: Held, method: MethodInfo, nominal: int, only: int = 0) -> Markup:
    """Return the rank scatter of all windows, or those of one passage, with its axes in words."""
    found, taken = held.found, held.taken(method.name, nominal)
    starts = found.windows
    fresh = np.zeros(len(starts), dtype=bool)
    if taken is not None and len(starts):
        fresh = 2 * np.add.reduceat(taken.astype(int), starts) >= np.diff([*starts, found.tokens])
    part = found.parts[only - 1] if only else slice(0, found.tokens)
    inside = (starts >= part.start) & (starts < part.stop)
    return tag(
        "div",
        tag("span", "main model: most looked at \u2192", class_="kv-up"),
        scatter(found.ranks[:, inside], fresh[inside], found.rank_correlation, len(starts)),
        tag("span", "small model: most looked at \u2192", class_="kv-across"),
        tag(
            "p", f"Rank correlation {found.rank_correlation:.2f} over {count(len(starts), 'window')}", class_="kv-muted"
        ),
        class_="kv-scatter-frame",
    )


def answer(said: Answer, method: MethodInfo) -> Markup:
    """Return a growing answer with its figures."""
    state = waiting(_STATES[said.state]) if said.state in _STATES else None
    stopped = note("Stopped. This is what was written so far.") if said.state == "stopped" else None
    written = tag("div", said.text, class_="kv-text", dir="auto") if said.text else None
    return tag("article", state, stopped, written, numbers(said, method), aria_busy=str(state is not None).lower())


def waiting(said: str) -> Markup:
    """Return what is being done."""
    pulse = tag("span", class_="kv-pulse", aria_hidden="true")
    return tag("p", pulse, f"{said}…", class_="kv-state", role="status")


def trouble(said: str) -> Markup:
    """Return an error in its place."""
    return tag("p", said, class_="kv-trouble", role="alert", dir="auto")


def note(said: str) -> Markup:
    """Return a quiet sentence."""
    return tag("p", said, class_="kv-muted", role="status")


def _big(value: str, below: str) -> Markup:
    return tag("p", tag("strong", value), tag("small", below), class_="kv-big")


def _card(rank: int, excerpt: Excerpt, curves: Markup, pieces: Iterable[Fate], block: int, fresh: int) -> Markup:
    tokens = len(excerpt.spans)
    coarse = f" The method picks single tokens: {block} neighbours share the colour of most of them."
    said = f"{fresh:,} of {count(tokens, 'token')} recomputed ({percent(fresh / tokens if tokens else 0)})."
    return tag(
        "li",
        tag(
            "div",
            tag("span", rank, class_="kv-rank", aria_label=f"Passage {rank}"),
            tag("bdi", excerpt.document, class_="kv-document", title=excerpt.document),
            None if excerpt.page is None else tag("span", f"page {excerpt.page}", class_="kv-page"),
            class_="kv-card-head",
        ),
        curves,
        tag(
            "div",
            join(*(_piece(piece) for piece in pieces)),
            class_="kv-passage",
            dir="auto",
            tabindex=0,
            role="region",
            aria_label=f"Text of passage {rank}",
        ),
        tag("p", said, coarse if block > 1 else None),
        class_="kv-card",
    )


def _piece(piece: Fate) -> object:
    looks = [look for bit, look in _LOOKS.items() if piece.fate & bit]
    return tag("span", piece.text, class_=" ".join(looks)) if looks else piece.text
