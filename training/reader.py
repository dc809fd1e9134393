"""Finetune a reader: a LoRA adapter that gives short answers from several passages, also if their KV was reused.

A part of the examples is prefilled in full; the others as in KV reuse, each passage independently, half of them with
some windows recomputed. This teaches a model to answer from chunk KV, as in Block-Attention (arXiv:2409.15355),
TurboRAG (arXiv:2410.07590) and KVLink (arXiv:2502.16002).
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.model.decoder import Decoder
from engine.model.loading.lora import LORA_WEIGHTS_FILE
from engine.prompt.template import PromptTemplate
from training.checkpoint import to_json
from training.data.corpus import Corpus
from training.data.examples import TrainingExamples, check_context_length
from training.data.packed import PackedExample, answer_logits, answer_loss
from training.loop import Progress, RunConfig, TrainingConfig, batches_from, prepare_run, train
from training.lora import LoraAdapter, LoraAdapterConfig
from training.publish import REPORT_FILE, write_report

RANDOM_WINDOW_FRACTION = 0.2


@dataclass(frozen=True)
class ReaderConfig(RunConfig):
    """How a reader is trained."""

    lora: LoraAdapterConfig = field(default=LoraAdapterConfig())
    training: TrainingConfig = field(default=TrainingConfig())


def train_reader(
    decoder: Decoder,
    corpora: Sequence[Corpus],
    out: Path,
    config: ReaderConfig,
    progress: Progress,
    init_from: Path | None = None,
) -> dict[str, Any]:
    """Train, evaluate before and after, and write adapter and report into `out`; return the report.

    Starts from the finished adapter `init_from`, if any; its report becomes part of this one. Resumes from the last
    checkpoint in `out`. Raises BadCorpus if there are too few questions, UnsupportedModel if examples or adapter do not
    fit the model, and BadCheckpoint or CheckpointNotWritten.
    """
    check_context_length(decoder, config.mix)
    examples, eval_examples, eval_set = prepare_run(PromptTemplate(decoder.tokenizer), corpora, config, out)
    adapter = LoraAdapter(decoder, config.lora)
    evaluate_now = partial(evaluate, decoder, adapter, eval_examples, config.eval_examples, progress)
    before = _evaluate_base_model(out, eval_set, evaluate_now)
    origin = None
    if init_from is not None:
        adapter.load(init_from)
        origin = _describe_adapter(init_from)

    def loss_of(batch: list[PackedExample]) -> Tensor:
        with adapter.autocast():
            return answer_loss(decoder, *batch)

    data = [eval_set, config.seed, to_json(config.mix), origin]
    settings = {**to_json(config.lora), "data": data}
    batches = partial(batches_from, examples=examples, config=config.training, device=decoder.device)
    seconds = train(adapter, loss_of, config.training, out, settings, progress, batches)
    results = {
        "started_from": origin,
        "training_minutes": round(seconds / 60, 1),
        "before": before,
        "after": evaluate_now("Evaluating"),
    }
    adapter.save(out)
    return write_report(out, decoder.name, config, eval_set, results)


def average_adapters(
    decoder: Decoder,
    corpora: Sequence[Corpus],
    folders: Sequence[Path],
    out: Path,
    config: ReaderConfig,
    progress: Progress,
) -> dict[str, Any]:
    """Write the mean of adapters and its report into `out`, evaluated like a reader; return the report.

    If there are few questions, the mean of an adapter and one initialized from it generalizes better than either: each
    run forgets something else (model soups, arXiv:2203.05482). Raises BadCorpus if there are too few questions,
    ModelNotFound if an adapter cannot be read, and UnsupportedModel if it has another rank.
    """
    _, examples, eval_set = prepare_run(PromptTemplate(decoder.tokenizer), corpora, config, out)
    adapter = LoraAdapter(decoder, config.lora)
    adapters = []
    for folder in folders:
        adapter.load(folder)
        adapters.append({name: weight.clone() for name, weight in adapter.state_dict().items()})
    adapter.load_state_dict({name: torch.stack([one[name] for one in adapters]).mean(0) for name in adapters[0]})
    results = {
        "averaged": [_describe_adapter(folder) for folder in folders],
        "after": evaluate(decoder, adapter, examples, config.eval_examples, progress, "Evaluating"),
    }
    adapter.save(out)
    return write_report(out, decoder.name, config, eval_set, results)


def selection_metric(report: dict[str, Any]) -> float:
    """Return the fraction of exact answers after training, summed over the ways of prefilling."""
    return sum(evaluation["exact"] for evaluation in report["after"].values())


@torch.no_grad()
def evaluate(
    decoder: Decoder, adapter: LoraAdapter, examples: TrainingExamples, count: int, progress: Progress, stage: str
) -> dict[str, dict[str, float]]:
    """Evaluate the first `count` examples with full prefill, direct reuse, and reuse with random windows recomputed.

    Returns for each the loss (nats per token), the fraction of exact answers, and the number n of questions. An answer
    is exact if each of its tokens is the most likely one: greedy decoding then generates exactly this answer.
    """
    parts: dict[str, list[tuple[float, int, int, int]]] = {}
    for index in range(count):
        example = examples[index]
        windows = examples.random_windows(example, RANDOM_WINDOW_FRACTION)
        variants = {
            "full prefill": replace(example, is_independent=False, recomputed=()),
            "direct reuse": replace(example, is_independent=True, recomputed=()),
            "random windows": replace(example, is_independent=True, recomputed=windows),
        }
        for name, variant in variants.items():
            with adapter.autocast():
                logits, targets = answer_logits(decoder, variant)
                loss = float(F.cross_entropy(logits, targets, reduction="sum"))
            is_best = (logits.argmax(-1) == targets).split([len(answer) for _, answer in variant.questions])
            exact = sum(bool(answer.all()) for answer in is_best)
            parts.setdefault(name, []).append((loss, len(targets), exact, len(is_best)))
        progress(stage, index + 1, count, 0.0)
    results = {}
    for name, counts in parts.items():
        loss, tokens, exact, n = map(sum, zip(*counts, strict=True))
        results[name] = {"loss": loss / tokens, "exact": exact / n, "n": n}
    return results


def _evaluate_base_model(
    out: Path, eval_set: dict[str, Any], evaluate_now: Callable[[str], dict[str, Any]]
) -> dict[str, Any]:
    """Evaluate the untrained model, unless a resumed run has done so before on the same questions."""
    path = out / "before.json"
    with suppress(OSError, ValueError, KeyError, TypeError):
        saved = json.loads(path.read_text())
        if saved["judged_by"] == eval_set:
            return saved["before"]
    before = evaluate_now("Evaluating the base model")
    path.write_text(json.dumps({"judged_by": eval_set, "before": before}) + "\n")
    return before


def _describe_adapter(folder: Path) -> dict[str, Any]:
    """Return a finished adapter's checksum and the relevant part of its report."""
    report = json.loads((folder / REPORT_FILE).read_text()) if (folder / REPORT_FILE).exists() else {}
    entries = {key: report.get(key) for key in ("config", "training_minutes", "after", "started_from")}
    with (folder / LORA_WEIGHTS_FILE).open("rb") as file:
        return {"sha256": hashlib.file_digest(file, "sha256").hexdigest(), **entries}
