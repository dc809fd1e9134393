"""Command line of the benchmarks, e.g. `python -m bench quality squad.jsonl --ratios 0.1 0.2 --json rows.json`.

Measures share their arguments; every question goes through every method, paired with full prefill.
"""

import argparse
import json
import logging
import os
import sys
from pathlib import Path

from bench.arguments import fraction, positive_int
from bench.commands import MEASURES
from bench.errors import InvalidArgument
from bench.harness.engine import model_config
from bench.harness.runner import parse_variants
from bench.reporting import report
from bench.tables import print_table
from engine.model.loading.bundled import BUNDLED_MODEL
from engine.strategies import STRATEGIES, list_methods
from store.data_folder import default_data_folder
from store.errors import KVScopeError

FORMER_NAMES = {"inspect": "attention", "load": "tiers"}
RESUMABLE = ("quality", "adaptive", "ruler", "attention")  # finished samples are kept; the other measures are short
COMPARES_METHODS = (
    *RESUMABLE,
    "documents",
    "draft",
    "fidelity",
    "ttft",
)  # the others do not use --methods; of them only `kernel` uses --ratios
METHODS = [name for name in STRATEGIES if name not in ("full", "prefix")]  # compared by default


def main() -> int:
    """Run one measure, print its table and write its rows. Returns the exit status."""
    arguments = _parser().parse_args()
    logging.basicConfig(level=logging.WARNING)
    name = FORMER_NAMES.get(arguments.measure, arguments.measure)
    measure = {**MEASURES, "report": report}[name]
    try:
        if name != "report":
            if not arguments.methods:  # one needs a trained token selector
                has_selector = model_config(arguments).token_selector_folder is not None
                arguments.methods = [method for method in METHODS if has_selector or method != "cacheclip-trained"]
            parse_variants(arguments.methods, arguments.ratios)  # reject unknown methods before loading anything
            _check_writable(arguments.json)
        rows = measure.run(arguments)
        print_table(measure.TITLE, measure.COLUMNS, rows)
        if name != "report" and arguments.json:
            arguments.json.write_text(json.dumps(rows, indent=1) + "\n")
    except KeyboardInterrupt:
        resumable = "Finished samples are kept; run the same command to resume."
        lost = "Nothing was kept; the same command starts over."
        print(f"\nInterrupted. {resumable if name in RESUMABLE else lost}", file=sys.stderr)
        return 130
    except (KVScopeError, ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _check_writable(target: Path | None) -> None:
    """Raise InvalidArgument if the rows could not be written to `target`."""
    if target is None:
        return
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidArgument(f"--json {target} cannot be written ({error.strerror}).") from error
    if target.is_dir() or not os.access(target if target.exists() else target.parent, os.W_OK):
        raise InvalidArgument(f"--json {target} cannot be written. Name a file in a folder you may write to.")


def _parser() -> argparse.ArgumentParser:
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__, formatter_class=formatter)
    commands = parser.add_subparsers(dest="measure", required=True, metavar="MEASURE")
    for name, measure in {"report": report, **MEASURES}.items():
        command = commands.add_parser(
            name,
            aliases=[former for former, new in FORMER_NAMES.items() if new == name],
            help=measure.TITLE,
            description=measure.__doc__,
            epilog=_method_list() if name in COMPARES_METHODS else None,
            formatter_class=formatter,
        )
        if name != "report":
            _add_shared_arguments(command, name)
        if hasattr(measure, "add_arguments"):
            measure.add_arguments(command)
    return parser


def _add_shared_arguments(parser: argparse.ArgumentParser, name: str) -> None:
    add = parser.add_argument
    compares, resumable = name in COMPARES_METHODS, name in RESUMABLE
    methods = "see below; parameters follow the name: epic:tokens=16 (default: all but prefix; ttft: cacheclip, direct)"
    add("--methods", nargs="+", metavar="METHOD", help=methods if compares else argparse.SUPPRESS)
    uses_ratios = compares or name == "kernel"
    ratios = "requested recompute ratios in [0, 1] (default: 0.2)" if uses_ratios else argparse.SUPPRESS
    add("--ratios", type=fraction, nargs="+", default=[0.2], metavar="R", help=ratios)
    lengths = ("--context-lengths", "--lengths")
    add(*lengths, dest="lengths", type=positive_int, nargs="+", metavar="T", help="context tokens")
    add("--num-samples", "--samples", dest="samples", type=positive_int, default=5, help="number of questions or runs")
    add("--seed", type=int, default=0)
    add("--model", default=BUNDLED_MODEL, help="main model: a folder, or a name on the hub")
    add("--auxiliary-model", "--auxiliary", default=BUNDLED_MODEL, help="a folder, or a name on the hub")
    trained = "auto (the shipped one), off, or a folder"
    plain = "plain: one whose training had no reused KV"
    add("--lora-adapter", "--reader", default="auto", help=f"LoRA adapter of the main model: {trained}; {plain}")
    add("--token-selector", "--selector", default="auto", help=f"token selector of CacheClip trained: {trained}")
    add("--span-scorer", "--pointer", default="auto", help=f"span scorer of grounded decoding: {trained}")
    quote_encoder = f"ranks quotes, with a span scorer: {trained}; off: the unchanged all-MiniLM-L6-v2"
    add("--quote-encoder", default="auto", help=quote_encoder)
    if resumable or name == "draft":
        kv_bits = "8: chunk KV as an 8-bit disk tier returns it"
        add("--disk-kv-bits", "--kv-bits", dest="kv_bits", type=int, choices=[8, 16], default=16, help=kv_bits)
        no_grounding = "decode without grounding"
        add("--no-grounded-decoding", dest="grounding", action="store_const", const="off", help=no_grounding)
        add("--grounding", choices=["auto", "off"], default="auto", help=argparse.SUPPRESS)  # former name
    add("--dtype", choices=["auto", "bf16", "fp32"], default="auto")
    add("--attention", choices=["auto", "torch"], default="auto", help="auto: our CPU kernels where they are faster")
    add("--decode-weights", choices=["auto", "int8", "bf16"], default="auto", help="that our kernel decodes with")
    add("--device", default="auto")
    folder = default_data_folder()
    add("--data-dir", "--data", dest="data", type=Path, default=folder, help="folder of the bundled model")
    add("--json", type=Path, help=f"write the rows here{', and finished samples next to them' if resumable else ''}")
    parser.set_defaults(lengths=[1024, 4096])


def _method_list() -> str:
    lines = ["methods:"]
    for method in list_methods():
        lines.append(f"  {method.name:13} {method.description}")
        lines += [
            f"  {'':13}   {param.name}={param.default} ({', '.join(param.choices) or param.label.lower()})"
            for param in method.params
            if param.name != "ratio"
        ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
