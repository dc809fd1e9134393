"""Average LoRA adapters of which one was initialized from the other: the mean generalizes better than either.

If there are few questions, two runs learn the same from them and each forgets something else; the mean retains more of
what both know. Source: model soups, arXiv:2203.05482.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from engine.model.decoder import Decoder
from engine.prompt.template import PromptTemplate
from training.config import to_json
from training.data.corpus import Corpus
from training.data.examples import describe_eval_set, train_eval_split
from training.loop import Progress
from training.lora import LoraAdapter
from training.publish import write_report
from training.reader import ReaderConfig, describe_adapter, evaluate_adapter


def average_adapters(
    decoder: Decoder,
    corpora: Sequence[Corpus],
    folders: Sequence[Path],
    out: Path,
    config: ReaderConfig,
    progress: Progress,
) -> dict[str, Any]:
    """Write the mean of adapters and its report into `out`, evaluated like a reader; return the report.

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
