"""What supports an answer: how certain it is, the quotes from the documents, and what else may answer."""

from collections.abc import Mapping, Sequence

from engine.prompt.template import NO_ANSWER
from engine.request import Answer, Quote, Source
from ui.components.document_text import render_document_text
from ui.format import percent
from ui.html import Markup, button, join, tag
from ui.pages.ask.chat import OTHER_ANSWERS, Turn, TurnSource

_CONFIDENCE = "Estimated probability that the answer is right, from how clearly the passages answer the question."
_MAX_CONTEXT_CHARS = 600

_Sources = Mapping[int, Source | TurnSource]  # by rank


def render_evidence(found: Answer | Turn, sources: Sequence[Source | TurnSource]) -> Markup | None:
    """Return the quotes under a finished answer with its confidence; None if nothing was estimated."""
    if found.confidence is None:
        return None
    is_declined = found.text == NO_ANSWER
    if is_declined:
        verdict, level = "Not found. Closest passages:", "none"
    elif found.needs_check:
        verdict, level = "Check the source", "low"
    else:
        verdict, level = "Quoted from the document" if found.is_quoted else "Supported by the document", "high"
    by_rank = {source.rank: source for source in sources}
    share = None if is_declined else tag("span", f"{percent(found.confidence)} confidence", title=_CONFIDENCE)
    origins = {_origin(by_rank, quote) for quote in found.quotes if found.is_quoted and not is_declined}
    origin = tag("span", *origins) if len(origins) == 1 else None  # of an answer that is a quote
    head = tag("p", tag("strong", verdict), origin, share, class_=f"kv-verdict kv-verdict-{level}")
    quotes = () if found.is_quoted else (_quote(by_rank, quote) for quote in found.quotes)
    others = tag("p", OTHER_ANSWERS, class_="kv-others") if found.alternatives else None
    alternatives = (_quote(by_rank, quote) for quote in found.alternatives)
    return tag("section", head, *quotes, others, *alternatives, class_="kv-evidence", aria_label="Evidence")


def _quote(sources: _Sources, quote: Quote) -> Markup:
    source = sources.get(quote.rank)
    mark = source and button(
        "select",
        source.chunk,
        str(quote.rank),
        class_="kv-cite",
        data_rank=quote.rank,
        data_context=quote.text[:_MAX_CONTEXT_CHARS],
        aria_label=f"Source {quote.rank}",
    )
    where = tag("p", _origin(sources, quote), " ", mark, class_="kv-quote-source")
    text = tag("div", render_document_text(quote.text), dir="auto", translate="no")
    return tag("blockquote", text, where, class_="kv-quote", dir="auto")


def _origin(sources: _Sources, quote: Quote) -> Markup:
    """Return the document of a quote, and its page if it has pages."""
    source = sources.get(quote.rank)
    page = "" if source is None or source.page is None else f", page {source.page}"
    return join(tag("bdi", source.document if source else quote.document), tag("span", page))
