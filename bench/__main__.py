"""The bench's command line: `python -m bench quality squad.jsonl --ratios 0.1 0.2 --samples 50 --json rows.json`.

Every measure takes the same arguments and sends the same questions through every method, paired with full prefill.
"""

import argparse
import json
import logging
import os
import sys
from pathlib import Path

from bench import cache
from bench.arguments import fraction, positive_int
from bench.errors import InvalidArgument
from bench.harness.engine import model_config
from bench.harness.variants import parse_variants
from bench.measures import attention as look
from bench.measures import decode, quality, scoring, ttft
from bench.measures import ruler as tasks
from bench.measures import tiers as load
from bench.reporting import report
from bench.tables import print_table
from engine.model.loading.bundled import BUNDLED_MODEL
from engine.strategies import list_methods
from store.data_folder import default_data_folder
from store.errors import KVScopeError

MEASURES = {
    "quality": quality,
    "ruler": tasks,
    "ttft": ttft,
    "decode": decode,
    "inspect": look,
    "load": load,
    "scoring": scoring,
    "cache": cache,
}
RESUMED = ("quality", "ruler", "inspect")  # keep finished samples; the others are short and start over
CHOOSE = (*RESUMED, "ttft")  # send questions through methods; the others take the arguments and have no use for them
METHODS = [
    *("cacheclip", "cacheclip-joint", "cacheclip-trained", "cacheclip-v1", "cacheclip-v2", "cacheblend", "prophetkv"),
    *("epic", "ape", "random", "oracle", "direct", "naive"),
]


def main() -> int:
    """Run one measure; print its table and write its rows. Returns the exit status."""
    arguments = _parser().parse_args()
    logging.basicConfig(level=logging.WARNING)
    measure = {**MEASURES, "report": report}[arguments.measure]
    try:
        if arguments.measure != "report":
            arguments.methods = arguments.methods or _all_methods(arguments)
            parse_variants(arguments.methods, arguments.ratios)  # what is unknown is told before anything is loaded
            _check_target(arguments.json)
        rows = measure.run(arguments)
        print_table(measure.TITLE, measure.COLUMNS, rows)
        if getattr(arguments, "json", None):
            arguments.json.write_text(json.dumps(rows, indent=1) + "\n")
    except KeyboardInterrupt:
        kept = "Finished samples are kept; the same command goes on from here."
        lost = "Nothing was kept; the same command starts over."
        print(f"\nInterrupted. {kept if arguments.measure in RESUMED else lost}", file=sys.stderr)
        return 130
    except (KVScopeError, ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _all_methods(arguments: argparse.Namespace) -> list[str]:
    """Return the methods that these models can do: one of them needs a trained selector."""
    selector = model_config(arguments).token_selector_folder
    return [name for name in METHODS if selector or name != "cacheclip-trained"]


def _check_target(rows: Path | None) -> None:
    """Raise BadArgument if nothing can be written there: better before the measure than after it."""
    if rows is None:
        return
    try:
        rows.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidArgument(f"--json {rows} cannot be written ({error.strerror}).") from error
    if rows.is_dir() or not os.access(rows if rows.exists() else rows.parent, os.W_OK):
        raise InvalidArgument(f"--json {rows} cannot be written. Name a file in a folder of yours.")


def _parser() -> argparse.ArgumentParser:
    shape = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__, formatter_class=shape)
    measures = parser.add_subparsers(dest="measure", required=True, metavar="MEASURE")
    drawn = measures.add_parser("report", help=report.TITLE, description=report.__doc__, formatter_class=shape)
    report.add_arguments(drawn)
    for name, measure in MEASURES.items():
        chooses = name in CHOOSE
        below = _methods() if chooses else None
        one = measures.add_parser(
            name, help=measure.TITLE, description=measure.__doc__, epilog=below, formatter_class=shape
        )
        says = "see below; settings follow the name: epic:tokens=16 (default: all but prefix, of ttft two of them)"
        one.add_argument("--methods", nargs="+", metavar="METHOD", help=says if chooses else argparse.SUPPRESS)
        says = "nominal recompute ratios, 0 to 1 (default: 0.2)" if chooses else argparse.SUPPRESS
        one.add_argument("--ratios", type=fraction, nargs="+", default=[0.2], metavar="R", help=says)
        one.add_argument(
            "--lengths", type=positive_int, nargs="+", default=[1024, 4096], metavar="T", help="context tokens"
        )
        one.add_argument("--samples", type=positive_int, default=5, help="questions; each goes through every arm")
        one.add_argument("--seed", type=int, default=0)
        one.add_argument("--model", default=BUNDLED_MODEL, help="folder or name on the hub")
        one.add_argument("--reader", default="auto", help="adapter: auto (the shipped one), off, or a folder")
        one.add_argument("--auxiliary", default=BUNDLED_MODEL)
        one.add_argument(
            "--selector", default="auto", help="of CacheClip trained: auto (the shipped one), off, or a folder"
        )
        one.add_argument("--pointer", default="auto", help="of the reader: auto (the shipped one), off, or a folder")
        if name in RESUMED:
            says = "8: chunk KV as the disk gives it back"
            one.add_argument("--kv-bits", type=int, choices=[8, 16], default=16, help=says)
            says = "off: a reader's answers are not held to the passages' words"
            one.add_argument("--grounding", choices=["auto", "off"], default="auto", help=says)
        one.add_argument("--dtype", choices=["auto", "bf16", "fp32"], default="auto")
        one.add_argument("--device", default="auto")
        one.add_argument(
            "--data", type=Path, default=default_data_folder(), help="where the embedded model is unpacked"
        )
        beside = ", and finished samples beside them" if name in RESUMED else ""
        one.add_argument("--json", type=Path, help=f"write the rows here{beside}")
        measure.add_arguments(one)
    return parser


def _methods() -> str:
    lines = ["methods:"]
    for method in list_methods():
        lines.append(f"  {method.name:13} {method.description}")
        lines += [
            f"  {'':13}   {s.name}={s.default} ({', '.join(s.choices) if s.choices else s.label.lower()})"
            for s in method.params
            if s.name != "ratio"
        ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
