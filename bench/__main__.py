"""The bench's command line: `python -m bench ttft --lengths 4096 8192 --ratios 0.2 --json rows.json`."""

import argparse
import json
import logging
import sys
from pathlib import Path

from bench import decode, load, ttft
from bench.report import show
from engine.model.embedded import NAME
from engine.reuse.strategies import STRATEGIES
from settings import default_data
from store.errors import KVScopeError

MEASURES = {"ttft": ttft, "load": load, "decode": decode}


def main() -> int:
    """Run one measure; print its table and write its rows. Returns the exit status."""
    arguments = _parser().parse_args()
    logging.basicConfig(level=logging.WARNING)
    measure = MEASURES[arguments.measure]
    try:
        rows = measure.run(arguments)
    except (KVScopeError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    show(measure.TITLE, measure.COLUMNS, rows)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    measures = parser.add_subparsers(dest="measure", required=True)
    for name, measure in MEASURES.items():
        one = measures.add_parser(name, help=measure.TITLE, description=measure.__doc__)
        one.add_argument("--lengths", type=int, nargs="+", default=[1024, 4096], help="context tokens")
        one.add_argument("--samples", type=int, default=5, help="questions; each goes through every arm")
        one.add_argument("--seed", type=int, default=0)
        one.add_argument("--model", default=NAME, help="folder or name on the hub")
        one.add_argument("--auxiliary", default=NAME)
        one.add_argument("--dtype", choices=["auto", "bf16", "fp32"], default="auto")
        one.add_argument("--device", default="auto")
        one.add_argument("--data", type=Path, default=default_data(), help="where the embedded model is unpacked")
        one.add_argument("--json", type=Path, help="write the rows here")
        if name == "ttft":
            one.add_argument("--methods", nargs="+", choices=list(STRATEGIES), default=["cacheclip", "direct"])
            one.add_argument("--ratios", type=float, nargs="+", default=[0.2], help="nominal recompute ratios, 0 to 1")
    return parser


if __name__ == "__main__":
    sys.exit(main())
