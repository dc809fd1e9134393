"""Fill in an `Answer` as its request proceeds: prompt, prefill, then the text as it is decoded and cited."""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from engine.generation.citations import RepetitionDetector, StableText, cite, strip_citation_marks
from engine.generation.evidence import Evidence
from engine.generation.preview import mark_passages
from engine.generation.quotes import format_unit
from engine.model.sampling import truncate_at
from engine.prefill.prefill import PrefillResult
from engine.prompt.editions import newer_edition
from engine.prompt.pack import PreparedPrompt
from engine.prompt.question_kind import QuestionKind
from engine.prompt.template import NO_ANSWER, PromptTemplate
from engine.request import Answer, Source, TextSpan
from engine.text import CITATION_MARK

UNSUPPORTED_FACTOR = 0.3  # of the confidence if no passage contains a number or name of the answer; not fitted
REPETITION = "The answer started to repeat itself, so generation was stopped."
STOP_STRINGS = ("\nQuestion:", "\nPassages:")  # a small model tends to continue with a prompt of its own


@dataclass
class GeneratedText:
    """An answer in progress; `tokens` are all ids decoded so far, the text may leave out the last of them."""

    text: str = ""
    tokens: list[int] = field(default_factory=list)
    is_repeating: bool = False  # stopped because a sentence came again, which was cut off
    is_cut_off: bool = False  # stopped by the server that wrote it, at its limit of tokens


def fill_prompt_fields(answer: Answer, prepared: PreparedPrompt, num_prefix_tokens: int, max_tokens: int) -> None:
    """Set what is known after retrieval: the sources and the lengths of the prompt's parts."""
    answer.state = "reading"
    answer.notes = prepared.notes
    answer.sources = tuple(
        Source(
            rank=rank,
            document=hit.chunk.document_name,
            document_id=hit.chunk.document_id,
            page=hit.chunk.page,
            similarity=hit.similarity,
            matched_words=hit.matched_words,
            tokens=len(passage.ids),
            tier="none",
            recomputed_tokens=0,
            text_spans=(TextSpan(text, recomputed=False),),
            chunk=hit.chunk.id,
        )
        for rank, (hit, text, passage) in enumerate(
            zip(prepared.hits, prepared.texts, prepared.passages, strict=True), start=1
        )
    )
    answer.num_dropped_passages = prepared.num_dropped_chunks
    answer.question_tokens = len(prepared.suffix_ids)
    answer.context_tokens = prepared.context_tokens
    answer.prompt_tokens = num_prefix_tokens + answer.context_tokens + answer.question_tokens
    answer.max_tokens = max_tokens


def fill_prefill_fields(
    answer: Answer, prepared: PreparedPrompt, result: PrefillResult, num_prefix_tokens: int
) -> None:
    """Set what is known after prefill: where each passage's KV came from and what was recomputed."""
    answer.state = "writing"
    sources = []
    marked_passages = mark_passages(result.rows, num_prefix_tokens, prepared.texts, prepared.passages)
    for index, (source, marked) in enumerate(zip(answer.sources, marked_passages, strict=True)):
        tier = result.tiers[index]
        hit = "exact prefix hit" if index < result.num_path_chunks else "chunk hit"
        filled = replace(
            source,
            tier=tier,
            cache_result={"none": "none", "computed": "miss"}.get(tier, hit),
            recomputed_tokens=marked.recomputed_tokens,
            text_spans=marked.text_spans,
        )
        sources.append(filled)
    answer.sources = tuple(sources)
    answer.recomputed_tokens = sum(source.recomputed_tokens for source in sources)
    answer.actual_ratio = result.actual_ratio


def stream_answer(
    answer: Answer,
    prepared: PreparedPrompt,
    texts: Iterable[GeneratedText],
    evidence: Callable[[], Evidence | None],
    num_sampled: int = 1,
) -> Iterator[Answer]:
    """Yield the answer after each of its growing `texts`, with the citations so far.

    An answer that repeats itself is replaced by the best quote, if there is evidence. The evidence is computed after
    the answer, if not before. Once the text is empty again, another answer begins. The first `num_sampled` tokens were
    there before: they say nothing about the speed.
    """
    stable = StableText(prepared.texts, answer.request.question)
    generated = GeneratedText()
    start = time.perf_counter()
    with answer.trace.stage("decode"):
        for generated in texts:
            answer.new_tokens = len(generated.tokens)
            num_decoded = answer.new_tokens - num_sampled
            if num_decoded > 0:
                answer.tokens_per_second = num_decoded / (time.perf_counter() - start)
            if generated.is_repeating:
                answer.notes += (REPETITION,)
                break
            if not generated.text:
                stable = StableText(prepared.texts, answer.request.question)
            answer.text = stable.update(generated.text)
            answer.sources = _with_citations(answer.sources, stable.cited_ranks)
            yield answer
        else:
            answer.truncated = generated.is_cut_off or len(generated.tokens) >= prepared.max_new_tokens
    answer.text, cited_ranks = cite(generated.text.strip(), prepared.texts, answer.request.question)
    answer.sources = _with_citations(answer.sources, cited_ranks)
    if (found := evidence()) is not None:
        _fill_evidence(answer, found, generated.is_repeating)


def fill_quoted_answer(
    answer: Answer,
    evidence: Evidence,
    log_likelihoods: Callable[[Sequence[str]], Sequence[float]] | None,
    generate: Callable[[], str],
) -> bool:
    """Answer in the passages' words, or that there is no answer; return False if a model is to answer.

    `log_likelihoods` of texts are the main model's, in nats: it helps to choose among the spans that may answer.
    Without it a model answers questions about facts. `generate` returns the main model's own answer, which is used
    where it takes two passages.
    """
    with answer.trace.stage("ground"):
        answer.quotes = tuple(evidence.quoted_answer() if evidence.has_answer else evidence.closest())
        is_fact = evidence.has_answer and not answer.quotes
        candidates = evidence.candidates() if is_fact and log_likelihoods else []
    if not evidence.has_answer:
        answer.text, answer.confidence = NO_ANSWER, 1 - evidence.confidence.answerable
        return True
    answer.is_quoted = bool(answer.quotes)
    if answer.is_quoted:
        _answer_with_quotes(answer, evidence)
    elif candidates and evidence.bridges and (quotes := evidence.across_passages(generated := generate())):
        ranks = [quote.rank for quote in quotes]
        answer.text = " ".join([generated, *(f"[{rank}]" for rank in ranks)])
        answer.quotes, answer.confidence = tuple(quotes), evidence.confidence.right
        answer.sources = _with_citations(answer.sources, set(ranks))
    elif log_likelihoods and candidates:
        best = evidence.choose(candidates, log_likelihoods)
        answer.text, answer.quotes = f"{best.text} [{best.quote.rank}]", (best.quote,)
        answer.highlight = best.highlight
        answer.is_quoted = best.text == format_unit(best.quote.text)  # all of the quote
        answer.confidence = evidence.confidence.right
        answer.sources = _with_citations(answer.sources, {best.quote.rank})
    else:
        return False
    _add_alternatives(answer, evidence)
    _note_newer_edition(answer)
    return True


def _note_newer_edition(answer: Answer) -> None:
    """Say so if all quotes are from an edition of a document of which the passages have a newer one."""
    names = [source.document for source in answer.sources]
    newer = newer_edition(answer.request.question, names, {quote.rank - 1 for quote in answer.quotes})
    if newer:
        answer.notes += (f"{answer.quotes[0].document} is an older edition: {newer} is newer.",)


def _add_alternatives(answer: Answer, evidence: Evidence) -> None:
    """Set what else may answer, if the answer needs a check; nothing else is a summary."""
    if answer.needs_check and evidence.kind is not QuestionKind.SUMMARY:
        answer.alternatives = tuple(evidence.closest(answer.quotes))


def _answer_with_quotes(answer: Answer, evidence: Evidence) -> None:
    answer.text = evidence.quoted_text(answer.quotes)
    answer.confidence = evidence.confidence.right
    answer.sources = _with_citations(answer.sources, {quote.rank for quote in answer.quotes})
    if (num_rows := len(evidence.table_rows.rows)) > len(answer.quotes) > 1:
        answer.notes += (f"{num_rows} rows of the table are meant; {len(answer.quotes)} are shown.",)


def _fill_evidence(answer: Answer, evidence: Evidence, is_repeating: bool) -> None:
    """Set quotes and confidence of an answer in a model's words."""
    text = CITATION_MARK.sub("", answer.text).strip()
    if is_repeating:
        answer.quotes, answer.is_quoted = tuple(evidence.closest()[:1]), True
        _answer_with_quotes(answer, evidence)
    elif text == NO_ANSWER:
        answer.quotes, answer.confidence = tuple(evidence.closest()), 1 - evidence.confidence.answerable
        return
    else:
        answer.quotes, answer.confidence = tuple(evidence.supporting(text)), evidence.confidence.right
        if unsupported := evidence.unsupported(text):
            answer.confidence *= UNSUPPORTED_FACTOR
            answer.notes += (f"Not in the passages: {', '.join(unsupported)}.",)
    _add_alternatives(answer, evidence)


def _with_citations(sources: Sequence[Source], ranks: Collection[int]) -> tuple[Source, ...]:
    return tuple(replace(source, cited=source.rank in ranks) for source in sources)


def generate_text(prompt: PromptTemplate, tokens: Iterable[int]) -> Iterator[GeneratedText]:
    """Yield one growing text of an answer's tokens, until it contains a stop string or repeats itself."""
    generated = GeneratedText()
    detokenize = prompt.tokenizer.stream()

    def pieces() -> Iterator[str]:
        for token in tokens:
            generated.tokens.append(token)
            yield detokenize(token)

    yield from grow_text(generated, pieces())


def grow_text(generated: GeneratedText, pieces: Iterable[str]) -> Iterator[GeneratedText]:
    """Append the pieces of an answer, and yield the text after each, until a stop string or a repetition."""
    repetition = RepetitionDetector()
    for piece in truncate_at(strip_citation_marks(pieces), STOP_STRINGS):
        generated.text += piece
        if (offset := repetition.update(generated.text)) is not None:
            generated.text = generated.text[:offset]
            generated.is_repeating = True
        yield generated
        if generated.is_repeating:
            return
