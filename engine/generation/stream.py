"""Generate an answer after its first token: decode, stop at repetitions and stop strings, cite passages, stream."""

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from threading import Event

from engine.generation.citations import RepetitionDetector, StableText, cite, strip_citation_marks
from engine.model.decoder import Decoder
from engine.model.kv_buffer import KVBuffer
from engine.model.sampling import Sampler, decode, truncate_at
from engine.prefill.prefill import PrefillResult
from engine.prompt.pack import PreparedPrompt
from engine.prompt.template import PromptTemplate
from engine.request import Answer, Source

STOP_STRINGS = ("\nQuestion:", "\nPassages:")  # a small model tends to continue with a prompt of its own


@dataclass
class GeneratedText:
    """An answer in progress.

    tokens        ids decoded so far; the text may leave out the last of them
    is_repeating  generation was stopped because a sentence came again; the repetition is cut
    """

    text: str = ""
    tokens: list[int] = field(default_factory=list)
    is_repeating: bool = False


def stream_answer(
    answer: Answer,
    decoder: Decoder,
    prompt: PromptTemplate,
    prepared: PreparedPrompt,
    result: PrefillResult,
    first_token: int,
    sampler: Sampler,
    cancel: Event,
) -> Iterator[Answer]:
    """Yield the answer after each token, with the citations so far. Raises Cancelled once `cancel` is set."""
    stable = StableText(prepared.texts, answer.request.question)
    generated = GeneratedText()
    max_new_tokens = prepared.max_new_tokens
    start = time.perf_counter()
    with answer.trace.stage("decode"):
        for generated in generate_text(decoder, prompt, result.buffer, first_token, sampler, max_new_tokens, cancel):
            answer.new_tokens = len(generated.tokens)
            if answer.new_tokens > 1:  # the first token belongs to the prefill
                answer.tokens_per_second = (answer.new_tokens - 1) / (time.perf_counter() - start)
            if generated.is_repeating:
                answer.notes += ("The answer started to repeat itself, so generation was stopped.",)
                break
            answer.text = stable.update(generated.text)
            answer.sources = _with_citations(answer.sources, stable.cited_ranks)
            yield answer
        else:
            answer.truncated = len(generated.tokens) >= max_new_tokens
    answer.text, cited_ranks = cite(generated.text.strip(), prepared.texts, answer.request.question)
    answer.sources = _with_citations(answer.sources, cited_ranks)


def _with_citations(sources: Sequence[Source], ranks: Collection[int]) -> tuple[Source, ...]:
    return tuple(replace(source, cited=source.rank in ranks) for source in sources)


def generate_text(
    decoder: Decoder,
    prompt: PromptTemplate,
    buffer: KVBuffer,
    first_token: int,
    sampler: Sampler,
    max_new_tokens: int,
    cancel: Event | None = None,
) -> Iterator[GeneratedText]:
    """Yield one growing text of at most `max_new_tokens` tokens that starts with `first_token`.

    Raises Cancelled between two tokens once `cancel` is set.
    """
    generated = GeneratedText()
    detokenize = prompt.tokenizer.stream()
    repetition = RepetitionDetector()

    def pieces() -> Iterator[str]:
        for token in decode(decoder, buffer, first_token, sampler, prompt.stop_ids, max_new_tokens, cancel):
            generated.tokens.append(token)
            yield detokenize(token)

    for piece in truncate_at(strip_citation_marks(pieces()), STOP_STRINGS):
        generated.text += piece
        if (offset := repetition.update(generated.text)) is not None:
            generated.text = generated.text[:offset]
            generated.is_repeating = True
        yield generated
        if generated.is_repeating:
            return
