"""Compute the training targets of a token selector: how much recomputing each token would help a question.

For each context token: the attention that the question pays to it in full prefill, times the distance of its cached
value from that of full prefill, summed over the layers. To first order, this is how far the question's hidden states
move if the token is not recomputed.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from engine.kv.chunk_cache import assemble, prefill_chunk
from engine.model.decoder import Decoder
from engine.model.kv_buffer import AttentionProbe, KVBuffer
from engine.prompt.template import MAX_QUERY_ROWS
from engine.strategies.windows import windows_within_budget
from engine.types import ChunkKV
from training.checkpoint import BadCheckpoint, load_checkpoint, save_checkpoint
from training.data.corpus import BadCorpus
from training.data.examples import TrainingExamples
from training.data.packed import PackedExample
from training.loop import Progress

CHECKPOINT_EXAMPLES = 50  # between two checkpoints


@dataclass(frozen=True)
class Target:
    """The target for one question of an example."""

    benefit: Tensor  # [T] of recomputing each token, sums to 1; 0 in the first passage, whose KV is exact
    baselines: dict[str, Tensor] = field(default_factory=dict)  # [T], by the main model's own attention, if requested


TargetDataset = dict[int, list[Target | None]]  # by example, then by question; None if recomputing does not help


@torch.no_grad()
def compute_targets(decoder: Decoder, example: PackedExample, with_baselines: bool = False) -> list[Target | None]:
    """Return the target for each question of an example of two or more passages, or None if nothing helps."""
    start, end = len(example.prefix), len(example.context)
    context = torch.tensor(example.context)
    full = decoder.new_buffer(end + MAX_QUERY_ROWS)
    decoder.forward_rows(context, full, torch.arange(end))
    prefix = ChunkKV(full.keys[:, :, :start], full.values[:, :, :start], 0)
    assembled = decoder.new_buffer(full.capacity)
    chunks = [prefill_chunk(decoder, prefix, ids) for ids in example.passages]
    assemble(assembled, prefix, chunks, decoder.spec.inv_freq)
    exact_values = full.values[:, :, start:end].float()
    deviation = (full.values - assembled.values)[:, :, start:end].float().norm(dim=-1).mean(1)  # [L, T]
    deviation /= exact_values.norm(dim=-1).mean((1, 2))[:, None]
    deviation[:, : len(example.passages[0])] = 0.0
    deviation = deviation.cpu()  # as is the attention
    targets = list[Target | None]()
    for question, _ in example.questions:
        question_ids = torch.tensor(question[-MAX_QUERY_ROWS:])
        attention = _question_attention(decoder, full, question_ids, end)[:, :, start:]
        benefit = (attention.mean(1) * deviation).sum(0)
        baselines = {}
        if with_baselines:
            attention = _question_attention(decoder, assembled, question_ids, end)[:, :, start:]
            attention = attention / attention.sum(-1, keepdim=True).clamp(min=1e-12)
            baselines = {"joint": attention.mean((0, 1)), "last layer": attention[-1].mean(0)}
        total = benefit.sum()
        targets.append(Target((benefit / total).half().float(), baselines) if total > 0 else None)
    return targets


def build_targets(
    decoder: Decoder, examples: TrainingExamples, count: int, folder: Path | None, data: Any, progress: Progress
) -> TargetDataset:
    """Return the targets of the first `count` examples; examples without a target are left out.

    `folder` is for checkpoints, which can only be resumed with the same `data`: a description of the examples, as JSON.
    Without a folder, baselines are computed too. Raises BadCorpus if no example has two passages, BadCheckpoint or
    CheckpointNotWritten.
    """
    targets = _load_targets(folder, data) if folder else {}
    stage = "Computing targets" if folder else "Computing evaluation targets"
    for index in range(len(targets), count):
        example = examples[index]
        targets[index] = compute_targets(decoder, example, folder is None) if len(example.passages) > 1 else []
        done = index + 1
        if folder and (done % CHECKPOINT_EXAMPLES == 0 or done == count):
            _save_targets(folder, data, targets)
        progress(stage, done, count, 0.0)
    dataset = {index: targets[index] for index in range(count) if any(targets[index])}
    if not dataset:
        raise BadCorpus("No example has two passages. Add more files, or larger ones.")
    return dataset


def _save_targets(folder: Path, data: Any, targets: TargetDataset) -> None:
    tensors = {
        f"{index} {question}": target.benefit.half()
        for index, of_questions in targets.items()
        for question, target in enumerate(of_questions)
        if target is not None
    }
    counts = [len(targets[index]) for index in range(len(targets))]
    save_checkpoint(folder, tensors, {"data": data, "questions": counts})


def _load_targets(folder: Path, data: Any) -> TargetDataset:
    if (loaded := load_checkpoint(folder)) is None:
        return {}
    tensors, state = loaded
    if state["data"] != data:
        raise BadCheckpoint(f"The targets in {folder} were computed for other examples: {state['data']}.")
    targets = {name: Target(benefit.float()) for name, benefit in tensors.items()}
    return {
        index: [targets.get(f"{index} {question}") for question in range(count)]
        for index, count in enumerate(state["questions"])
    }


def benefit_share(benefit: Tensor, scores: Tensor, lengths: list[int], ratio: float = 0.2) -> float:
    """Return the fraction of the benefit that the highest-scoring windows contain at this ratio."""
    return float(benefit[windows_within_budget(scores, lengths, ratio, num_exact_chunks=1)].sum())


def _question_attention(decoder: Decoder, buffer: KVBuffer, question_ids: Tensor, context_length: int) -> Tensor:
    """Return the attention that a question after the context pays to it, [L, query heads, context]."""
    rows = torch.arange(context_length, context_length + len(question_ids))
    probe = AttentionProbe(buffer, rows, len(rows))
    decoder.forward(question_ids[None], rows[None], probe)
    return probe.attention[:, :, :context_length]
