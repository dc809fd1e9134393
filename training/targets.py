"""Which tokens' recomputing would help a question most: what a selector learns to point at.

Per context token: the attention that the question pays to it in a full prefill, times how far its cached value lies
from the full prefill's, summed over the layers. That is, to first order, how far the question's own hidden states move
when the token is left as it is.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from engine.kv.assemble import assemble
from engine.kv.chunk_cache import prefill_chunk
from engine.model.decoder import Decoder
from engine.model.kv_buffer import AttentionProbe, KVBuffer
from engine.prompt.template import MAX_QUERY_ROWS
from engine.strategies.windows import windows_within_budget
from engine.types import ChunkKV
from training import checkpoint
from training.checkpoint import BadCheckpoint
from training.data.corpus import BadCorpus
from training.data.examples import TrainingExamples
from training.data.packed import PackedExample
from training.loop import Progress

EVERY = 50  # lessons read between two checkpoints


@dataclass(frozen=True)
class Target:
    """What one question wants of a lesson's context.

    helps   [T], sums to 1, rounded to fp16; nothing for the first passage, since that is exact
    others  scores [T] of the primary's own attention over assembled chunks, by name; empty unless asked for
    """

    helps: Tensor
    others: dict[str, Tensor]


Wanted = dict[int, list[Target | None]]  # of each question of a lesson; None where nothing helps


@torch.no_grad()
def targets(decoder: Decoder, lesson: PackedExample, compared: bool = False) -> list[Target | None]:
    """Return what each question of a lesson of two passages or more wants; None for one that nothing helps."""
    start, context = len(lesson.prefix), torch.tensor(lesson.context)
    whole = decoder.new_buffer(len(context) + MAX_QUERY_ROWS)
    decoder.forward_rows(context, whole, torch.arange(len(context)))
    prefix = ChunkKV(whole.keys[:, :, :start], whole.values[:, :, :start], 0)
    joined = decoder.new_buffer(whole.capacity)
    assemble(joined, prefix, [prefill_chunk(decoder, prefix, ids) for ids in lesson.passages], decoder.spec.inv_freq)
    moved = (whole.values - joined.values)[:, :, start : len(context)].float().norm(dim=-1).mean(1)  # [L, T]
    moved /= whole.values[:, :, start : len(context)].float().norm(dim=-1).mean((1, 2))[:, None]
    moved[:, : len(lesson.passages[0])] = 0.0
    moved, found = moved.cpu(), list[Target | None]()  # attention is watched there, wherever the model is
    for question, _ in lesson.questions:
        asked = torch.tensor(question[-MAX_QUERY_ROWS:])
        helps = (_watched(decoder, whole, asked, len(context)).mean(1)[:, start:] * moved).sum(0)
        others = {}
        if compared:
            seen = _watched(decoder, joined, asked, len(context))[:, :, start:]
            shares = seen / seen.sum(-1, keepdim=True).clamp(min=1e-12)
            others = {"joint": shares.mean((0, 1)), "last layer": shares[-1].mean(0)}
        found.append(Target((helps / helps.sum()).half().float(), others) if helps.sum() > 0 else None)
    return found


def wanted_by(
    decoder: Decoder, lessons: TrainingExamples, count: int, folder: Path | None, data: Any, progress: Progress
) -> Wanted:
    """Return what the questions of the first `count` lessons want, by lesson; one of a single passage wants nothing.

    folder  keeps what was read; None keeps nothing, and compares with the primary's own attention
    data    describes the lessons, as JSON can hold it: what was read of others is refused

    Raises BadMaterial where no lesson has two passages, BadCheckpoint and NotWritten.
    """
    found = {} if folder is None else _kept(folder, data)
    for number in range(len(found), count):
        lesson = lessons[number]
        found[number] = targets(decoder, lesson, folder is None) if len(lesson.passages) > 1 else []
        if folder is not None and ((number + 1) % EVERY == 0 or number + 1 == count):
            _keep(folder, data, found)
        progress("Reading" if folder else "Reading what it is judged by", number + 1, count, 0.0)
    wanted = {number: found[number] for number in range(count) if any(found[number])}
    if not wanted:
        raise BadCorpus("No lesson has two passages. Give more files, or larger ones.")
    return wanted


def _keep(folder: Path, data: Any, found: Wanted) -> None:
    tensors = {
        f"{number} {place}": one.helps.half()
        for number, wanted in found.items()
        for place, one in enumerate(wanted)
        if one is not None
    }
    counts = [len(found[number]) for number in range(len(found))]
    checkpoint.save(folder, tensors, {"data": data, "questions": counts})


def _kept(folder: Path, data: Any) -> Wanted:
    if (kept := checkpoint.load(folder)) is None:
        return {}
    tensors, state = kept
    if state["data"] != data:
        raise BadCheckpoint(f"What was read in {folder} belongs to other lessons: {state['data']}.")
    read = {name: Target(helps.float(), {}) for name, helps in tensors.items()}
    return {
        number: [read.get(f"{number} {place}") for place in range(count)]
        for number, count in enumerate(state["questions"])
    }


def held(helps: Tensor, scores: Tensor, lengths: list[int], ratio: float = 0.2) -> float:
    """Return the share of what helps that the windows with the best scores hold at this ratio."""
    return float(helps[windows_within_budget(scores, lengths, ratio, num_exact_chunks=1)].sum())


def _watched(decoder: Decoder, buffer: KVBuffer, asked: Tensor, context: int) -> Tensor:
    """Return the attention that a question behind the context pays to it, [L, query heads, context]."""
    rows = torch.arange(context, context + len(asked))
    watched = AttentionProbe(buffer, rows, len(rows))
    decoder.forward(asked[None], rows[None], watched)
    return watched.attention[:, :, :context]
