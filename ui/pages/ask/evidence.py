"""What supports an answer: how certain it is, the quotes from the documents, and what else may answer."""

from engine.prompt.template import NO_ANSWER
from engine.request import Answer, Quote
from ui.components.document_text import render_document_text
from ui.format import percent
from ui.html import Markup, button, join, tag

_CONFIDENCE = "Estimated probability that the answer is right, from how clearly the passages answer the question."
_MIN_CONTEXT_CHARS = 600


def render_evidence(answer: Answer) -> Markup | None:
    """Return the quotes under a finished answer with its confidence; None if nothing was estimated."""
    if answer.confidence is None:
        return None
    is_declined = answer.text == NO_ANSWER
    if is_declined:
        verdict, level = "Not found. Closest passages:", "none"
    elif answer.needs_check:
        verdict, level = "Check the source", "low"
    else:
        verdict, level = "Quoted from the document" if answer.is_quoted else "Supported by the document", "high"
    share = None if is_declined else tag("span", f"{percent(answer.confidence)} confidence", title=_CONFIDENCE)
    origins = {_origin(answer, quote) for quote in answer.quotes if answer.is_quoted and not is_declined}
    origin = tag("span", *origins) if len(origins) == 1 else None  # of an answer that is a quote
    head = tag("p", tag("strong", verdict), origin, share, class_=f"kv-verdict kv-verdict-{level}")
    quotes = () if answer.is_quoted else (_quote(answer, quote) for quote in answer.quotes)
    others = tag("p", "Other possible answers:", class_="kv-others") if answer.alternatives else None
    alternatives = (_quote(answer, quote) for quote in answer.alternatives)
    return tag("section", head, *quotes, others, *alternatives, class_="kv-evidence", aria_label="Evidence")


def _quote(answer: Answer, quote: Quote) -> Markup:
    mark = button(
        "select",
        answer.sources[quote.rank - 1].chunk,
        str(quote.rank),
        class_="kv-cite",
        data_rank=quote.rank,
        data_context=quote.text[:_MIN_CONTEXT_CHARS],
        aria_label=f"Source {quote.rank}",
    )
    where = tag("p", _origin(answer, quote), " ", mark, class_="kv-quote-source")
    text = tag("div", render_document_text(quote.text), dir="auto", translate="no")
    return tag("blockquote", text, where, class_="kv-quote", dir="auto")


def _origin(answer: Answer, quote: Quote) -> Markup:
    """Return the document of a quote, and its page if it has pages."""
    source = answer.sources[quote.rank - 1]
    page = "" if source.page is None else f", page {source.page}"
    return join(tag("bdi", source.document), tag("span", page))
