"""From the first token to the end of an answer: decode, stop where a small model rambles, cite what backs it."""

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from threading import Event

from engine.generation.citations import RepetitionDetector, StableText, cite, unmarked
from engine.model.decoder import Decoder
from engine.model.kv_buffer import KVBuffer
from engine.model.sampling import Sampler, cut_at, decode
from engine.prefill.prefill import PrefillResult
from engine.prompt.builder import PreparedPrompt
from engine.prompt.template import Prompt
from engine.request import Answer, Source

STOP_STRINGS = ("\nQuestion:", "\nPassages:")  # a small model likes to go on with a text of its own


@dataclass
class Writing:
    """The text of an answer under way.

    tokens    ids decoded so far; some of them may be cut from the text
    repeated  it began to repeat itself and was ended there
    """

    text: str = ""
    tokens: list[int] = field(default_factory=list)
    repeated: bool = False


def write(
    answer: Answer,
    decoder: Decoder,
    prompt: Prompt,
    reading: PreparedPrompt,
    ready: PrefillResult,
    first: int,
    chooser: Sampler,
    cancel: Event,
) -> Iterator[Answer]:
    """Yield the answer as it grows token by token behind its first one. Raises Cancelled once `cancel` is set."""
    steady, writing, began = StableText(reading.texts, answer.request.question), Writing(), time.perf_counter()
    with answer.trace.stage("decode"):
        for writing in written(decoder, prompt, ready.buffer, first, chooser, reading.max_new_tokens, cancel):
            answer.new_tokens = len(writing.tokens)
            if answer.new_tokens > 1:  # the first token belongs to the prefill
                answer.tokens_per_second = (answer.new_tokens - 1) / (time.perf_counter() - began)
            if writing.repeated:
                answer.notes += ("The answer began to repeat itself and was ended there.",)
                break
            answer.text = steady.of(writing.text)
            answer.sources = _cited(answer.sources, steady.cited)
            yield answer
        else:
            answer.cut = len(writing.tokens) >= reading.max_new_tokens
    answer.text, cited = cite(writing.text.strip(), reading.texts, answer.request.question)
    answer.sources = _cited(answer.sources, cited)


def _cited(sources: Sequence[Source], ranks: Collection[int]) -> tuple[Source, ...]:
    return tuple(replace(source, cited=source.rank in ranks) for source in sources)


def written(
    decoder: Decoder,
    prompt: Prompt,
    buffer: KVBuffer,
    first: int,
    chooser: Sampler,
    room: int,
    cancel: Event | None = None,
) -> Iterator[Writing]:
    """Yield one growing text of at most `room` tokens, beginning with the token `first`.

    Raises Cancelled between two tokens once `cancel` is set.
    """
    writing, stream, repeats = Writing(), prompt.tokens.stream(), RepetitionDetector()

    def texts() -> Iterator[str]:
        for token in decode(decoder, buffer, first, chooser, prompt.stop_ids, room, cancel):
            writing.tokens.append(token)
            yield stream(token)

    for text in cut_at(unmarked(texts()), STOP_STRINGS):
        writing.text += text
        if (said_before := repeats.of(writing.text)) is not None:
            writing.text, writing.repeated = writing.text[:said_before], True
        yield writing
        if writing.repeated:
            return
