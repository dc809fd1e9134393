"""A document's passages, twenty at a time, and one of them where it stands on its page."""

from collections.abc import Sequence
from dataclasses import dataclass

from backend.interface.library import Passage
from store.types import Excerpt
from ui.components.document_list import PLACES
from ui.components.excerpt import marked, place
from ui.format import count
from ui.html import Markup, tag

AT_ONCE = 20
_TIERS = "Where the keys and values that questions reuse lie now."


@dataclass(frozen=True, slots=True)
class Preview:
    """Passages `first` to at most `first + 19` of `total`; `excerpt` is one of them where it stands."""

    passages: Sequence[Passage]
    first: int
    total: int
    excerpt: Excerpt | None = None

    def drawn(self) -> Markup:
        """Return the passages with a pager over them."""
        ends = [0, *(passage.chunk.end for passage in self.passages)]
        cards = [self._card(passage, end) for passage, end in zip(self.passages, ends, strict=False)]
        return tag("div", self._pager(), tag("ol", *cards, class_="kv-cards"), class_="kv-preview")

    def _pager(self) -> Markup:
        last = self.first + len(self.passages)
        said = f"Passages {self.first + 1:,}\u2013{last:,} of {self.total:,}" if self.passages else "No passages"
        buttons = []
        if self.first:
            buttons.append(_turn("Earlier", max(0, self.first - AT_ONCE)))
        if last < self.total:
            buttons.append(_turn("Later", last))
        return tag("div", tag("span", said, role="status"), *buttons, class_="kv-pager")

    def _card(self, passage: Passage, before: int) -> Markup:
        chunk = passage.chunk
        where = f"Page {chunk.page}" if chunk.page else None
        tier = f"computed, {PLACES[passage.tier]}" if passage.tier else "not computed"
        look = "kv-badge kv-tier-host" if passage.tier else "kv-badge"
        placed = self.excerpt is not None and self.excerpt.chunk.id == chunk.id
        words = {"aria_pressed": "true" if placed else "false", "title": "Show the text around it"}
        toggle = tag("button", "In its place", type="button", data_act="place", data_id=chunk.id, **words)
        head = tag(
            "div",
            tag("b", f"{chunk.number + 1:,}"),
            tag("span", where) if where else None,
            tag("span", count(passage.tokens, "token"), title="As the model counts them"),
            tag("span", tier, class_=look, title=_TIERS),
            toggle,
            class_="kv-card-line",
        )
        return tag("li", head, self._placed() if placed else _text(passage, before), class_="kv-piece")

    def _placed(self) -> Markup | None:
        if self.excerpt is None:
            return None
        return tag("figure", tag("figcaption", place(self.excerpt)), marked(self.excerpt))


def _text(passage: Passage, before: int) -> Markup:
    """Return a passage's text; what it repeats from the one before is paler."""
    chunk = passage.chunk
    repeated = max(0, before - chunk.start)
    again = tag("span", chunk.text[:repeated], class_="kv-again", title="Repeated from the passage before")
    return tag("div", again if repeated else None, chunk.text[repeated:], class_="kv-piece-text", dir="auto")


def _turn(label: str, first: int) -> Markup:
    return tag("button", label, type="button", data_act="page", data_id=first)
