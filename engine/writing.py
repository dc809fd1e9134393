"""From the first token to the end of an answer: decode, stop where a small model rambles, cite what backs it."""

import time
from collections.abc import Iterator
from dataclasses import replace
from threading import Event

from engine.answer import Answer
from engine.cite import Steady, cite, repetition
from engine.model.decoder import Decoder
from engine.model.generate import Chooser, cut_at, decode
from engine.prefill import Prefilled
from engine.prompt import Prompt
from engine.request import Reading

STOP_STRINGS = ("\nQuestion:", "\nPassages:", "\n#")  # a small model likes to go on with a text of its own


def write(
    answer: Answer,
    decoder: Decoder,
    prompt: Prompt,
    reading: Reading,
    ready: Prefilled,
    first: int,
    sampling: Chooser,
    cancel: Event,
) -> Iterator[Answer]:
    """Yield the answer as it grows token by token behind its first one. Raises Cancelled once `cancel` is set."""
    stream, began, written = prompt.tokens.stream(), time.perf_counter(), ""
    steady = Steady(reading.texts, answer.request.question)

    def texts() -> Iterator[str]:
        for token in decode(decoder, ready.buffer, first, sampling, prompt.stop_ids, reading.room, cancel):
            answer.new_tokens += 1
            if answer.new_tokens > 1:  # the first token belongs to the prefill
                answer.tokens_per_second = (answer.new_tokens - 1) / (time.perf_counter() - began)
            yield stream(token)

    with answer.trace.stage("decode"):
        for text in cut_at(texts(), STOP_STRINGS):
            written += text
            if (said_before := repetition(written)) is not None:
                written = written[:said_before]
                answer.notes += ("The answer began to repeat itself and was ended there.",)
                break
            answer.text = steady.of(written)
            yield answer
        else:
            answer.cut = answer.new_tokens >= reading.room
    answer.text, cited = cite(written.strip(), reading.texts, answer.request.question)
    answer.sources = tuple(replace(source, cited=source.rank in cited) for source in answer.sources)
