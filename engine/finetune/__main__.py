"""Finetune a small adapter on the CPU or a GPU: `python -m engine.finetune reader DATA... --out FOLDER`.

DATA are JSON lines with questions ({"context": ..., "qas": [{"question": ..., "answers": [...]}]}), or documents
(.txt, .md, or a folder of both); ':3' behind a path draws from it three times as often. Without any question, questions
are made from the documents. Progress is printed; the same command goes on where it stopped.
"""

import argparse
import logging
import sys
import time
from dataclasses import replace
from pathlib import Path

import torch

from engine.errors import KVScopeError
from engine.finetune.adapter import AdapterConfig
from engine.finetune.lessons import Mix
from engine.finetune.material import BadMaterial, read
from engine.finetune.reader import ReaderConfig, finetune, ship
from engine.finetune.training import TrainingConfig
from engine.model.embedded import NAME
from engine.model.load import load
from engine.model.precision import pick
from engine.model.resolve import resolve

EVERY_S = 20.0  # between two lines of progress


def main() -> int:
    """Train, print the report, write the adapter. Returns the exit status."""
    arguments = _parser().parse_args()
    logging.basicConfig(level=logging.WARNING)
    try:
        _reader(arguments)
    except KeyboardInterrupt:
        print("\nInterrupted. The same command goes on from the last checkpoint.", file=sys.stderr)
        return 130
    except torch.OutOfMemoryError:
        print("The GPU's memory is full. Give a smaller --tokens.", file=sys.stderr)
        return 1
    except (KVScopeError, ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _reader(arguments: argparse.Namespace) -> None:
    device, dtype, said = pick(arguments.device, arguments.dtype)
    materials = [replace(m, weight=weight) for path, weight in map(_weighted, arguments.data) for m in read([path])]
    decoder = load(resolve(arguments.model, arguments.models, _said), device, dtype, Path(arguments.model).name)
    print(f"{decoder.name}, {said}; {sum(m.questions for m in materials)} questions in {len(materials)} files")
    config = ReaderConfig(
        adapter=AdapterConfig(arguments.rank, 2 * arguments.rank),
        mix=Mix(tokens=arguments.tokens),
        training=TrainingConfig(lessons=arguments.lessons, rate=arguments.rate),
        seed=arguments.seed,
        judged=arguments.judged,
    )
    report = finetune(decoder, materials, arguments.out, config, _Lines())
    print(f"{'exact answers':16} before  after  (n)")
    for name, after in report["after"].items():
        print(f"{name:16} {report['before'][name]['exact']:6.3f} {after['exact']:6.3f}  ({after['n']})")
    print(f"Adapter and report are in {arguments.out}; use it with: python app.py --reader {arguments.out}")
    if arguments.ship is not None:
        print(f"{arguments.ship} {'has it now' if ship(arguments.out, arguments.ship) else 'keeps its better one'}.")


class _Lines:
    """Progress as lines: readable in a terminal and in a log."""

    def __init__(self) -> None:
        self._stage, self._began, self._first, self._last = "", 0.0, 0, 0.0

    def __call__(self, stage: str, done: int, of: int, loss: float) -> None:
        now = time.monotonic()
        if stage != self._stage:
            self._stage, self._began, self._first, self._last = stage, now, done, 0.0
        if now - self._last < EVERY_S and done < of:
            return
        self._last = now
        left = (now - self._began) / max(1, done - self._first) * (of - done) / 60
        told = f", loss {loss:.3f}" if loss else ""
        print(f"{stage} {done}/{of}{told}, about {left:.0f} min left", flush=True)


def _said(what: str, share: float) -> None:
    print(f"{what} ({share:.0%})", flush=True)


def _weighted(data: str) -> tuple[Path, float]:
    """Return the path and the weight behind its last colon, if there is one."""
    path, _, weight = data.rpartition(":")
    try:
        parts = (Path(path), float(weight)) if path else (Path(data), 1.0)
    except ValueError:
        parts = (Path(data), 1.0)
    if not parts[1] > 0:
        raise BadMaterial(f"The weight in {data!r} must be above 0.")
    return parts


def _parser() -> argparse.ArgumentParser:
    shape = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="python -m engine.finetune", description=__doc__, formatter_class=shape)
    what = parser.add_subparsers(dest="what", required=True, metavar="WHAT")
    reader = what.add_parser("reader", help="an adapter that answers from passages", formatter_class=shape)
    reader.add_argument("data", nargs="+", metavar="DATA[:WEIGHT]")
    reader.add_argument("--out", type=Path, required=True, help="folder for checkpoints, adapter and report")
    reader.add_argument("--ship", type=Path, help="copy the adapter there if its report says that it is better")
    reader.add_argument("--model", default=NAME, help="folder or name on the hub")
    reader.add_argument("--models", type=Path, default=Path("models"), help="where the embedded model is unpacked")
    reader.add_argument("--device", default="auto")
    reader.add_argument("--dtype", choices=["auto", "bf16", "fp32"], default="auto")
    reader.add_argument("--lessons", type=int, default=TrainingConfig.lessons, help="each has up to 16 questions")
    reader.add_argument("--tokens", type=int, default=Mix.tokens, help="most context tokens of a lesson")
    reader.add_argument("--rate", type=float, default=TrainingConfig.rate, help="learning rate")
    reader.add_argument("--rank", type=int, default=AdapterConfig.rank)
    reader.add_argument("--judged", type=int, default=ReaderConfig.judged, help="held-out lessons to judge by")
    reader.add_argument("--seed", type=int, default=0)
    return parser


if __name__ == "__main__":
    sys.exit(main())
