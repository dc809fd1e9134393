"""Questions about ordinary documents, from file to answer: parsing, search, reader, quotes and confidence.

Each FOLDER has `files/` and `questions.jsonl` (bench.documents); the default is the first set of this repository. Its
files are added to a library of their own, and every question goes through every method. An answer is right if it states
the required facts. The rows are of the questions of all folders together.
"""

import statistics
import tempfile
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from bench.documents.check import (
    QUESTIONS,
    Question,
    expected_calibration_error,
    is_right,
    load_questions,
    quote_is_right,
)
from bench.documents.refusals import is_refusal
from bench.errors import InvalidArgument
from bench.harness.engine import model_config
from bench.harness.runner import requested_variants, with_variant
from bench.harness.workload import open_library
from bench.tables import columns_of, progress
from engine.analysis.variants import Variant
from engine.builder import Models, build_engine, load_models
from engine.cache.hierarchy import CacheHierarchy, CacheHierarchyConfig
from engine.engine import Engine
from engine.request import Answer, ChatTurn, Request
from engine.text import CITATION_MARK
from engine.trace import Trace
from store.types import Finder, Progress

TITLE = "answers on ordinary documents"
COLUMNS = columns_of(
    "method ratio type right rq quote_right quote_shown num_shown retrieved refusal_precision refusal_recall "
    "calibration_error ttft_ms n"
)
ALL = "all"


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of this measure."""
    add = parser.add_argument
    add(
        "folders",
        nargs="*",
        type=Path,
        default=[QUESTIONS.parent],
        metavar="FOLDER",
        help="with files/ and questions.jsonl",
    )
    add("--split", choices=["dev", "held", "all"], default="all", help="part of the questions; tune on dev only")
    add("--types", nargs="+", metavar="TYPE", help="only these types of questions")
    add("--passages", type=int, default=3, help="passages to retrieve")
    add("--answers", action="store_true", help="print each answer that is not right")
    parser.set_defaults(methods=["cacheclip-trained"])


def run(arguments: Namespace) -> list[dict[str, Any]]:
    """Return one row per method, ratio and type of question, and one for all types."""
    variants = requested_variants(arguments)
    split = None if arguments.split == "all" else arguments.split
    sets = [  # before the models, to report a missing folder
        (sorted((folder / "files").iterdir()), _questions(folder, split, arguments.types))
        for folder in arguments.folders
    ]
    if not all(questions for _, questions in sets):
        raise InvalidArgument("There is no question of this --split and these --types. Leave one of them out.")
    models = load_models(model_config(arguments))
    outcomes: dict[Variant, list[dict[str, Any]]] = {variant: [] for variant in variants}
    for files, questions in sets:
        _ask(models, files, questions, outcomes, arguments)
    full = outcomes[variants[0]]
    return [row for variant in variants for row in _rows(variant, outcomes[variant], full)]


def _questions(folder: Path, split: str | None, types: Collection[str] | None) -> list[Question]:
    questions = load_questions(folder / "questions.jsonl", split)
    return [question for question in questions if not types or question.type in types]


def _ask(
    models: Models,
    files: Sequence[Path],
    questions: Sequence[Question],
    outcomes: dict[Variant, list[dict[str, Any]]],
    arguments: Namespace,
) -> None:
    """Ask questions about files with every variant, and add what came of it to the variant's outcomes."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as opened:

        def open_filled_library(tokenizer: Tokenizer) -> Finder:
            library = opened.enter_context(closing(open_library(Path(folder), tokenizer, arguments.dtype)))
            _add_files(library.add, files)
            return library

        tiers = CacheHierarchy(CacheHierarchyConfig(host_bytes=3 * 2**30, disk_bytes=0), None, models.primary.device)
        engine = build_engine(models, open_filled_library, tiers)
        for question in progress(questions, "Questions"):
            history = _ask_history(engine, question, arguments.passages)
            for variant, judged in outcomes.items():
                request = Request(question.question, passages=arguments.passages, history=history)
                *_, answer = engine.ask(with_variant(request, variant))
                judged.append(_judge(question, answer))
                if arguments.answers and not judged[-1]["right"]:
                    print(f"{question.id} [{variant.key}] {question.question}\n    {answer.text!r}", flush=True)


def _add_files(add: Callable[[Path, str], Iterator[Progress]], files: Iterable[Path]) -> None:
    for file in files:
        start = time.perf_counter()
        *_, last = add(file, file.name)
        pages = last.document.num_pages if last.document else None
        print(f"{file.name}: {time.perf_counter() - start:.2f} s, pages: {pages} {last.warning}", flush=True)


def _ask_history(engine: Engine, question: Question, passages: int) -> tuple[ChatTurn, ...]:
    """Return the earlier turns with the chunks that they would have read."""
    turns: tuple[ChatTurn, ...] = ()
    for turn in question.history:
        prepared = engine.prepare(Request(turn.question, passages=passages, history=turns), Trace())
        chunks = tuple(hit.chunk.id for hit in prepared.hits)
        turns += (ChatTurn(turn.question, turn.answer, chunks),)
    return turns


def _judge(question: Question, answer: Answer) -> dict[str, Any]:
    text = CITATION_MARK.sub("", answer.text)
    names = {source.document for source in answer.sources}
    quotes = [quote.text for quote in answer.quotes]
    shown = quotes + [quote.text for quote in answer.alternatives]
    return {
        "type": question.type,
        "right": is_right(question, text),
        "quote_right": quote_is_right(question, quotes) if question.quote else None,
        "quote_shown": quote_is_right(question, shown) if question.quote else None,
        "num_shown": len(shown),
        "refused": is_refusal(text),
        "retrieved": set(question.documents) <= names if question.documents else None,
        "confidence": answer.confidence,
        "ttft_ms": answer.trace.ttft_ms,
    }


def _rows(variant: Variant, outcomes: Sequence[dict[str, Any]], full: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a variant's rows: one per type, then one for all."""
    rows = []
    for kind in [*dict.fromkeys(outcome["type"] for outcome in outcomes), ALL]:
        chosen = [outcome for outcome in outcomes if kind in (outcome["type"], ALL)]
        right = sum(outcome["right"] for outcome in chosen)
        full_right = sum(outcome["right"] for outcome in full if kind in (outcome["type"], ALL))
        row: dict[str, Any] = {"method": variant.method, "type": kind, "right": right / len(chosen), "n": len(chosen)}
        if variant.ratio is not None:
            row["ratio"] = variant.ratio
        if full_right:
            row["rq"] = right / full_right
        for name in ("quote_right", "quote_shown", "num_shown", "retrieved", "ttft_ms"):
            if values := [outcome[name] for outcome in chosen if outcome[name] is not None]:
                row[name] = statistics.median(values) if name == "ttft_ms" else statistics.fmean(values)
        if known := [outcome for outcome in chosen if outcome["confidence"] is not None]:
            confidences = [outcome["confidence"] for outcome in known]
            row["calibration_error"] = expected_calibration_error(confidences, [each["right"] for each in known])
        rows.append(row)
    refusals = [outcome for outcome in outcomes if outcome["type"] == "refusal"]
    declined = [outcome for outcome in outcomes if outcome["refused"]]
    if refusals and declined:
        hits = sum(outcome["refused"] for outcome in refusals)
        rows[-1] |= {"refusal_recall": hits / len(refusals), "refusal_precision": hits / len(declined)}
    return rows
