"""Finetune a reader: a LoRA adapter that gives short answers from several passages, also if their KV was reused.

A part of the examples is prefilled in full; the others as in KV reuse, each passage independently, half of them with
some windows recomputed. This teaches a model to answer from chunk KV, as in Block-Attention (arXiv:2409.15355),
TurboRAG (arXiv:2410.07590) and KVLink (arXiv:2502.16002).
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from engine.model.decoder import Decoder
from engine.model.loading.load import LORA_WEIGHTS_FILE
from engine.prompt.template import PromptTemplate
from training.checkpoint import to_json
from training.data.corpus import Corpus
from training.data.examples import (
    DataMix,
    TrainingExamples,
    check_context_length,
    describe_eval_set,
    train_eval_split,
)
from training.data.packed import answer_loss
from training.evaluate import evaluate
from training.loop import Progress, TrainingConfig, train
from training.lora import LoraAdapter, LoraAdapterConfig
from training.publish import REPORT_FILE, write_report


@dataclass(frozen=True)
class ReaderConfig:
    """How a reader is trained.

    eval_examples  held-out examples to evaluate with, before and after training
    eval_fraction  of each corpus' paragraphs that is held out, at its end
    """

    lora: LoraAdapterConfig = field(default_factory=LoraAdapterConfig)
    mix: DataMix = field(default_factory=DataMix)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    seed: int = 0
    eval_examples: int = 40
    eval_fraction: float = 0.05


def train_reader(
    decoder: Decoder,
    corpora: Sequence[Corpus],
    out: Path,
    config: ReaderConfig,
    progress: Progress,
    init_from: Path | None = None,
) -> dict[str, Any]:
    """Train, evaluate, and write adapter and report into `out`; return the report.

    init_from  a finished adapter to start from; its report becomes part of this one

    Resumes from the last checkpoint in `out`. The report has the loss and the fraction of exact answers for each way
    of prefilling, before and after training.

    Raises BadCorpus if there are too few questions, UnsupportedModel if examples or adapter do not fit the model, and
    BadCheckpoint or CheckpointNotWritten.
    """
    torch.manual_seed(config.seed)
    check_context_length(decoder, config.mix)
    prompt = PromptTemplate(decoder.tokenizer)
    examples, eval_examples = train_eval_split(prompt, corpora, config.mix, config.seed, config.eval_fraction)
    eval_set = describe_eval_set(corpora, config.mix, config.eval_fraction, config.eval_examples)
    out.mkdir(parents=True, exist_ok=True)
    adapter = LoraAdapter(decoder, config.lora)

    def evaluate_now(stage: str) -> dict[str, Any]:
        return evaluate_adapter(stage, decoder, adapter, eval_examples, config.eval_examples, progress)

    before = _evaluate_base_model(out, eval_set, evaluate_now)
    origin = None
    if init_from is not None:
        adapter.init_from(init_from)
        origin = describe_adapter(init_from)

    def loss_of(step: int) -> Tensor:
        return answer_loss(decoder, examples[step])

    data = json.loads(json.dumps([eval_set, config.seed, to_json(config.mix), origin]))
    seconds = train(adapter, loss_of, config.training, out, data, progress)
    report = {
        "model": decoder.name,
        "config": to_json(config),
        "judged_by": eval_set,
        "started_from": origin,
        "training_minutes": round(seconds / 60, 1),
        "before": before,
        "after": evaluate_now("Evaluating"),
    }
    adapter.save(out)
    write_report(out, report)
    return report


def describe_adapter(folder: Path) -> dict[str, Any]:
    """Return a finished adapter's checksum and the relevant part of its report."""
    report = json.loads((folder / REPORT_FILE).read_text()) if (folder / REPORT_FILE).exists() else {}
    entries = {key: report.get(key) for key in ("config", "training_minutes", "after", "started_from")}
    with (folder / LORA_WEIGHTS_FILE).open("rb") as file:
        return {"sha256": hashlib.file_digest(file, "sha256").hexdigest(), **entries}


def _evaluate_base_model(
    out: Path, eval_set: dict[str, Any], evaluate_now: Callable[[str], dict[str, Any]]
) -> dict[str, Any]:
    """Evaluate the untrained model, unless a resumed run has done so before on the same questions."""
    path = out / "before.json"
    with suppress(OSError, ValueError, KeyError, TypeError):
        saved = json.loads(path.read_text())
        if saved["judged_by"] == eval_set:
            evaluations: dict[str, Any] = saved["before"]
            return evaluations
    before = evaluate_now("Evaluating the base model")
    path.write_text(json.dumps({"judged_by": eval_set, "before": before}) + "\n")
    return before


def evaluate_adapter(
    stage: str,
    decoder: Decoder,
    adapter: LoraAdapter,
    examples: TrainingExamples,
    count: int,
    progress: Progress,
) -> dict[str, Any]:
    """Evaluate the first `count` examples with the adapter; return the results as JSON."""
    with adapter.autocast():
        results = evaluate(decoder, examples, count, lambda done: progress(stage, done, count, 0.0))
    return {name: asdict(evaluation) for name, evaluation in results.items()}


def selection_metric(report: dict[str, Any]) -> float:
    """Return the fraction of exact answers after training, summed over the ways of prefilling."""
    return sum(evaluation["exact"] for evaluation in report["after"].values())


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
    run forgets something else (model soups, arXiv:2203.05482).

    Raises BadCorpus if there are too few questions to evaluate with, ModelNotFound if an adapter cannot be read, and
    UnsupportedModel if it has another rank.
    """
    prompt = PromptTemplate(decoder.tokenizer)
    _, examples = train_eval_split(prompt, corpora, config.mix, config.seed, config.eval_fraction)
    adapter = LoraAdapter(decoder, config.lora)
    adapters = []
    for folder in folders:
        adapter.init_from(folder)
        adapters.append({name: weight.clone() for name, weight in adapter.weights.items()})
    adapter.load({name: torch.stack([weights[name] for weights in adapters]).mean(0) for name in adapters[0]})
    report = {
        "model": decoder.name,
        "config": to_json(config),
        "judged_by": describe_eval_set(corpora, config.mix, config.eval_fraction, config.eval_examples),
        "averaged": [describe_adapter(folder) for folder in folders],
        "after": evaluate_adapter("Evaluating", decoder, adapter, examples, config.eval_examples, progress),
    }
    out.mkdir(parents=True, exist_ok=True)
    adapter.save(out)
    write_report(out, report)
    return report
