"""Finetune on the CPU or a GPU: `python -m training reader DATA... --out FOLDER`, or `selector`, or `average`.

DATA are JSON lines with questions ({"context": ..., "qas": [{"question": ..., "answers": [...]}]}), or documents
(.txt, .md, or a folder of both); ':3' behind a path draws from it three times as often. Documents stand among the
passages as what search brings in vain; with a weight behind them, or where no file has a question, questions are made
from them. Progress is printed; the same command goes on where it stopped.
"""

import argparse
import logging
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from engine.builder import ModelConfig
from engine.errors import KVScopeError
from engine.generation.span_scorer import SPAN_SCORER_FILE
from engine.model.decoder import Decoder
from engine.model.encoder import MEANING, WORD, packaged
from engine.model.loading.bundled import NAME
from engine.model.loading.dtype import select_dtype
from engine.model.loading.load import load
from engine.model.loading.resolve import resolve
from engine.prompt.template import Prompt
from engine.scoring.trained_selector import FILE
from store.data_folder import default_data_folder
from training import reader, selector
from training import span_scorer as pointer
from training import weight_averaging as averaging
from training.data.cloze import with_questions
from training.data.corpus import BadCorpus, Corpus, read
from training.data.examples import JUDGES, DataMix
from training.loop import TrainingConfig
from training.lora import FILES, AdapterConfig
from training.publish import publish

EVERY_S = 20.0  # between two lines of progress


def main() -> int:
    """Train, print the report, write the result. Returns the exit status."""
    arguments = _parser().parse_args()
    logging.basicConfig(level=logging.WARNING)
    try:
        arguments.run(arguments)
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
    materials = _materials(arguments)
    config = reader.ReaderConfig(
        adapter=AdapterConfig(arguments.rank, 2 * arguments.rank),
        mix=DataMix(tokens=arguments.tokens, plain=arguments.plain),
        training=TrainingConfig(lessons=arguments.lessons, rate=arguments.rate),
        seed=arguments.seed,
        judged=arguments.judged,
    )
    decoder = _decoder(arguments, None)
    report = reader.train_reader(decoder, materials, arguments.out, config, _Lines(), arguments.start)
    print(f"{'exact answers':16} before  after  (n)")
    for name, after in report["after"].items():
        print(f"{name:16} {report['before'][name]['exact']:6.3f} {after['exact']:6.3f}  ({after['n']})")
    print(f"Use it with: python app.py --reader {arguments.out}")
    _ship(arguments, FILES, reader.merit)


def _average(arguments: argparse.Namespace) -> None:
    config = reader.ReaderConfig(
        adapter=AdapterConfig(arguments.rank, 2 * arguments.rank),
        mix=DataMix(tokens=arguments.tokens),
        judged=arguments.judged,
    )
    decoder = _decoder(arguments, None)
    report = averaging.average(decoder, _materials(arguments), arguments.of, arguments.out, config, _Lines())
    print("exact answers")
    for name, after in report["after"].items():
        print(f"{name:16} {after['exact']:6.3f}  ({after['n']})")
    _ship(arguments, FILES, reader.merit)


def _selector(arguments: argparse.Namespace) -> None:
    materials = _materials(arguments)
    config = selector.SelectorConfig(
        lessons=arguments.lessons,
        judged=arguments.judged,
        rounds=arguments.rounds,
        mix=replace(selector.SelectorConfig().mix, tokens=arguments.tokens),
        rate=arguments.rate,
        seed=arguments.seed,
    )
    wanted = ModelConfig(arguments.models, arguments.model, reader=arguments.reader)
    decoder, encoder = _decoder(arguments, wanted.adapter), packaged(select_dtype("cpu", arguments.dtype)[1])
    report = selector.train_selector(decoder, encoder, materials, arguments.out, config, _Lines())
    print(f"Share of what helps most in the windows chosen at 20 %, n = {report['questions']['judged']} questions")
    for name, share in report["agreement"].items():
        print(f"{name:18} {share:.3f}")
    beside = "" if arguments.reader == "auto" else f" --reader {arguments.reader}"
    print(f"Use it with: python app.py --selector {arguments.out}{beside}")
    _ship(arguments, (FILE,), selector.merit)


def _pointer(arguments: argparse.Namespace) -> None:
    training = replace(pointer.SpanScorerConfig().training, lessons=arguments.lessons, rate=arguments.rate)
    config = pointer.SpanScorerConfig(judged=arguments.judged, seed=arguments.seed, training=training)
    encoder = packaged(select_dtype("cpu", arguments.dtype)[1], (WORD, MEANING))
    prompt = Prompt(_decoder(arguments, None).tokenizer)
    report = pointer.train_span_scorer(encoder, prompt, _materials(arguments), arguments.out, config, _Lines())
    print(f"Points at the answer: {report['right']:.3f} of {report['questions']} questions")
    print(f"Use it with: python app.py --pointer {arguments.out}")
    _ship(arguments, (SPAN_SCORER_FILE,), pointer.merit)


def _materials(arguments: argparse.Namespace) -> list[Corpus]:
    found = []
    for path, weight in map(_weighted, arguments.data):
        for material in read([path]):
            found.append(replace(material, weight=weight or 1.0))
            if weight and not material.questions:
                made = with_questions(material, JUDGES)
                found.append(replace(made, name=f"{made.name}, questions made from it", weight=weight))
    return found


def _decoder(arguments: argparse.Namespace, adapter: Path | None) -> Decoder:
    device, dtype, said = select_dtype(arguments.device, arguments.dtype)
    place, name = resolve(arguments.model, arguments.models, _said), Path(arguments.model).name
    print(f"{name}{' with its reader' if adapter else ''}, {said}", flush=True)
    return load(place, device, dtype, name, adapter)


def _ship(arguments: argparse.Namespace, files: Sequence[str], merit: Callable[[dict[str, Any]], float]) -> None:
    if arguments.ship is not None:
        done = publish(arguments.out, arguments.ship, files, merit)
        print(f"{arguments.ship} {'has it now' if done else 'keeps its better one'}.")


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


def _weighted(data: str) -> tuple[Path, float | None]:
    """Return the path and the weight behind its last colon, if there is one."""
    path, _, weight = data.rpartition(":")
    try:
        parts = (Path(path), float(weight)) if path else (Path(data), None)
    except ValueError:
        parts = (Path(data), None)
    if parts[1] is not None and not parts[1] > 0:
        raise BadCorpus(f"The weight in {data!r} must be above 0.")
    return parts


def _parser() -> argparse.ArgumentParser:
    shape = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="python -m training", description=__doc__, formatter_class=shape)
    what = parser.add_subparsers(required=True, metavar="WHAT")
    one = _add(what, "reader", _reader, reader.__doc__)
    one.add_argument("--lessons", type=int, default=TrainingConfig.lessons, help="each has up to 16 questions")
    one.add_argument("--judged", type=int, default=reader.ReaderConfig.judged, help="held-out lessons to judge by")
    one.add_argument("--tokens", type=int, default=DataMix.tokens, help="most context tokens of a lesson")
    one.add_argument(
        "--plain", type=float, default=DataMix.plain, help="share of lessons read in one, as full prefill does"
    )
    one.add_argument("--rate", type=float, default=TrainingConfig.rate, help="learning rate")
    one.add_argument("--rank", type=int, default=AdapterConfig.rank)
    one.add_argument(
        "--start", type=Path, help="a finished adapter to go on from, with fresh lessons of another --seed"
    )
    mean = _add(what, "average", _average, averaging.__doc__)
    mean.add_argument("--of", type=Path, nargs="+", required=True, metavar="FOLDER", help="finished adapters")
    mean.add_argument("--judged", type=int, default=reader.ReaderConfig.judged, help="held-out lessons to judge by")
    mean.add_argument("--tokens", type=int, default=DataMix.tokens, help="most context tokens of a lesson")
    mean.add_argument("--rank", type=int, default=AdapterConfig.rank, help="of the adapters")
    two = _add(what, "selector", _selector, selector.__doc__)
    two.add_argument("--lessons", type=int, default=selector.SelectorConfig.lessons, help="each has up to 5 questions")
    two.add_argument("--judged", type=int, default=selector.SelectorConfig.judged, help="held-out lessons to judge by")
    two.add_argument("--tokens", type=int, default=DataMix.tokens, help="most context tokens of a lesson")
    two.add_argument("--rounds", type=int, default=selector.SelectorConfig.rounds, help="through the lessons")
    two.add_argument("--rate", type=float, default=selector.SelectorConfig.rate, help="learning rate")
    two.add_argument("--reader", default="auto", help="adapter: auto (the shipped one), off, or a folder")
    three = _add(what, "pointer", _pointer, pointer.__doc__)
    usual = pointer.SpanScorerConfig().training
    three.add_argument("--lessons", type=int, default=usual.lessons, help="each has up to 12 questions")
    three.add_argument(
        "--judged", type=int, default=pointer.SpanScorerConfig.judged, help="held-out lessons to judge by"
    )
    three.add_argument("--rate", type=float, default=usual.rate, help="learning rate")
    return parser


def _add(what: Any, name: str, run: Callable[[argparse.Namespace], None], about: str | None) -> argparse.ArgumentParser:
    told = (about or "").strip()
    shape = argparse.RawDescriptionHelpFormatter
    one: argparse.ArgumentParser = what.add_parser(
        name, help=told.split("\n")[0].rstrip("."), description=told, formatter_class=shape
    )
    one.set_defaults(run=run)
    one.add_argument("data", nargs="+", metavar="DATA[:WEIGHT]")
    one.add_argument("--out", type=Path, required=True, help="folder for checkpoints, result and report")
    one.add_argument("--ship", type=Path, help="copy the result there if its report says that it is better")
    one.add_argument("--model", default=NAME, help="folder or name on the hub")
    one.add_argument(
        "--models", type=Path, default=default_data_folder() / "models", help="where the embedded model is unpacked"
    )
    one.add_argument("--device", default="auto")
    one.add_argument("--dtype", choices=["auto", "bf16", "fp32"], default="auto")
    one.add_argument("--seed", type=int, default=0)
    return one


if __name__ == "__main__":
    sys.exit(main())
