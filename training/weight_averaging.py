"""Average adapters of which one began with the other: the mean of their weights generalises better than either.

Where few questions are to be had, two runs learn the same from them and each forgets something else; the mean keeps
more of what both know. Source: model soups, arXiv:2203.05482.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from engine.model.decoder import Decoder
from engine.prompt.template import Prompt
from training.data.corpus import Corpus
from training.data.examples import judged_by, train_eval_split
from training.loop import Progress
from training.lora import Adapter
from training.publish import REPORT
from training.reader import ReaderConfig, judged, origin


def average(
    decoder: Decoder,
    materials: Sequence[Corpus],
    folders: Sequence[Path],
    out: Path,
    config: ReaderConfig,
    progress: Progress,
) -> dict[str, Any]:
    """Write the mean of adapters into `out`, judged by held-out lessons as a reader is; return its report.

    Raises BadMaterial if there is too little to judge by, ModelNotFound or UnsupportedModel for an adapter that cannot
    be read or has another rank.
    """
    _, held = train_eval_split(Prompt(decoder.tokenizer), materials, config.mix, config.seed, config.held)
    adapter, parts = Adapter(decoder, config.adapter), []
    for folder in folders:
        adapter.start_from(folder)
        parts.append({name: weight.clone() for name, weight in adapter.weights.items()})
    adapter.load({name: torch.stack([part[name] for part in parts]).mean(0) for name in parts[0]})
    report = {
        "model": decoder.name,
        "config": asdict(config),
        "judged_by": judged_by(materials, config.mix, config.held, config.judged),
        "averaged": [origin(folder) for folder in folders],
        "after": judged("Judging", decoder, adapter, held, config, progress),
    }
    out.mkdir(parents=True, exist_ok=True)
    adapter.save(out)
    (out / REPORT).write_text(json.dumps(report, indent=1) + "\n")
    return report
