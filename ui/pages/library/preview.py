"""HTML of a document's passages, twenty per page, one of them optionally in its surrounding text."""

from collections.abc import Sequence
from dataclasses import dataclass

from backend.interface.library import Passage
from store.types import Excerpt
from ui.components.excerpt import page_label, render_excerpt
from ui.components.tiers import TIERS
from ui.format import count
from ui.html import Markup, button, tag

PAGE_SIZE = 20
_CACHED = "Where its keys and values (KV), which questions reuse, are cached."


@dataclass(frozen=True, slots=True)
class Preview:
    """Up to PAGE_SIZE passages from number `first` of `total`.

    excerpt  one of the passages in its surrounding text, or None
    """

    passages: Sequence[Passage]
    first: int
    total: int
    excerpt: Excerpt | None = None

    def render(self) -> Markup:
        """Return the passages, and a pager above them."""
        previous_ends = [0, *(passage.chunk.end for passage in self.passages)]
        cards = [self._card(passage, end) for passage, end in zip(self.passages, previous_ends, strict=False)]
        return tag("div", self._pager(), tag("ol", *cards, class_="kv-cards"), class_="kv-preview")

    def _pager(self) -> Markup:
        end = self.first + len(self.passages)
        position = f"Passages {self.first + 1:,}\u2013{end:,} of {self.total:,}" if self.passages else "No passages"
        previous = button("page", max(0, self.first - PAGE_SIZE), "Previous") if self.first else None
        following = button("page", end, "Next") if end < self.total else None
        return tag("div", tag("span", position, role="status"), previous, following, class_="kv-pager")

    def _card(self, passage: Passage, previous_end: int) -> Markup:
        chunk = passage.chunk
        excerpt = self.excerpt if self.excerpt and self.excerpt.chunk.id == chunk.id else None
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
                title=_CACHED,
            ),
            button("place", chunk.id, "In context", **state),
            class_="kv-card-line",
        )
        body = _text(passage, previous_end)
        if excerpt:
            body = tag("figure", tag("figcaption", page_label(excerpt)), render_excerpt(excerpt))
        return tag("li", header, body, class_="kv-chunk")


def _text(passage: Passage, previous_end: int) -> Markup:
    """Return a passage's text; its overlap with the previous passage is paler."""
    chunk = passage.chunk
    overlap = max(0, previous_end - chunk.start)
    repeated = tag("span", chunk.text[:overlap], class_="kv-overlap", title="Repeated from the previous passage")
    return tag("div", repeated if overlap else None, chunk.text[overlap:], class_="kv-chunk-text", dir="auto")
