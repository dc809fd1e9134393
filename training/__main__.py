"""Train small models for reuse, on the CPU or a GPU: `python -m training reader DATA... --out FOLDER`.

DATA are JSON lines with questions ({"context": ..., "qas": [{"question": ..., "answers": [...]}]}), or documents
(.txt, .md, or a folder). 'DATA:3' draws from a file three times as often. Documents serve as distractors among the
passages; with a weight, or if no file has questions, cloze questions are made from them. Progress is printed, and the
same command resumes an interrupted run.
"""

import argparse
import logging
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError

from engine.builder import SPAN_SCORER, ModelConfig
from engine.errors import KVScopeError, SpanScorerUnusable
from engine.generation.span_scorer import SPAN_SCORER_FILE, SpanScorer
from engine.model.decoder import Decoder
from engine.model.encoder import SEMANTIC_LAYER, load_encoder, load_minilm
from engine.model.loading.bundled import BUNDLED_MODEL
from engine.model.loading.load import load_decoder, select_dtype
from engine.model.loading.resolve import resolve
from engine.prompt.template import PromptTemplate
from engine.scoring.trained_selector import SELECTOR_FILE
from store.data_folder import default_data_folder
from store.retrieval.minilm import MiniLM
from store.weights_file import QUOTE_ENCODER_FILE, load_mean
from training import questions, quote_encoder, reader, selector, span_scorer
from training.data.cloze import add_cloze_questions
from training.data.corpus import BadCorpus, Corpus, read_corpora
from training.data.documents.generate import write_documents
from training.data.examples import EVAL_SEED, DataMix
from training.data.linked_pages import write_linked_pages
from training.loop import TrainingConfig
from training.lora import LORA_ADAPTER_FILES, LoraAdapterConfig
from training.publish import publish

HELP_FORMATTER = argparse.RawDescriptionHelpFormatter
PRINT_INTERVAL_S = 20.0  # between two lines of progress
FORMER_COMMANDS = {"pointer": "span-scorer"}
FORMER_OPTIONS = {
    "--judged": "--eval-examples",
    "--lessons": "--steps",
    "--of": "--adapters",
    "--plain": "--full-prefill-fraction",
    "--rate": "--lr",
    "--reader": "--lora-adapter",
    "--rounds": "--epochs",
    "--ship": "--publish-to",
    "--start": "--init-from",
}


def main() -> int:
    """Run one command, print its report and write its result. Returns the exit status."""
    arguments = parse(sys.argv[1:])
    logging.basicConfig(level=logging.WARNING)
    try:
        arguments.run(arguments)
    except KeyboardInterrupt:
        print("\nInterrupted. Run the same command to resume from the last checkpoint.", file=sys.stderr)
        return 130
    except torch.OutOfMemoryError:
        print("The GPU is out of memory. Pass a smaller --batch-size, or --tokens.", file=sys.stderr)
        return 1
    except (KVScopeError, ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _run_reader(arguments: argparse.Namespace) -> None:
    config = reader.ReaderConfig(
        lora=LoraAdapterConfig(arguments.rank, 2 * arguments.rank),
        mix=DataMix(
            max_tokens=arguments.tokens,
            full_prefill_fraction=arguments.full_prefill_fraction,
            split_fraction=arguments.split_fraction,
        ),
        training=TrainingConfig(arguments.steps, arguments.lr, batch_size=arguments.batch_size),
        seed=arguments.seed,
        eval_examples=arguments.eval_examples,
    )
    corpora = _read_corpora(arguments)
    decoder = _load_decoder(arguments)
    report = reader.train_reader(decoder, corpora, arguments.out, config, _ProgressPrinter(), arguments.init_from)
    print(f"{'exact answers':16} before  after  (n)")
    for name, after in report["after"].items():
        print(f"{name:16} {report['before'][name]['exact']:6.3f} {after['exact']:6.3f}  ({after['n']})")
    print(f"Use it with: python app.py --lora-adapter {arguments.out}")
    _publish(arguments, LORA_ADAPTER_FILES, reader.selection_metric)


def _run_average(arguments: argparse.Namespace) -> None:
    config = reader.ReaderConfig(
        lora=LoraAdapterConfig(arguments.rank, 2 * arguments.rank),
        mix=DataMix(max_tokens=arguments.tokens),
        eval_examples=arguments.eval_examples,
    )
    corpora = _read_corpora(arguments)
    decoder = _load_decoder(arguments)
    report = reader.average_adapters(decoder, corpora, arguments.adapters, arguments.out, config, _ProgressPrinter())
    print("exact answers")
    for name, after in report["after"].items():
        print(f"{name:16} {after['exact']:6.3f}  ({after['n']})")
    _publish(arguments, LORA_ADAPTER_FILES, reader.selection_metric)


def _run_selector(arguments: argparse.Namespace) -> None:
    config = selector.SelectorConfig(
        examples=arguments.examples,
        eval_examples=arguments.eval_examples,
        epochs=arguments.epochs,
        mix=replace(selector.SelectorConfig.mix, max_tokens=arguments.tokens),
        learning_rate=arguments.lr,
        seed=arguments.seed,
    )
    models = ModelConfig(arguments.models, arguments.model, lora_adapter=arguments.lora_adapter)
    corpora = _read_corpora(arguments)
    decoder = _load_decoder(arguments, models.lora_folder)
    encoder = load_encoder(select_dtype("cpu", arguments.dtype)[1])
    report = selector.train_selector(decoder, encoder, corpora, arguments.out, config, _ProgressPrinter())
    print(f"Fraction of the benefit in the windows selected at 20 %, n = {report['questions']['judged']} questions")
    for name, share in report["agreement"].items():
        print(f"{name:18} {share:.3f}")
    adapter_option = "" if arguments.lora_adapter == "auto" else f" --lora-adapter {arguments.lora_adapter}"
    print(f"Use it with: python app.py --token-selector {arguments.out}{adapter_option}")
    _publish(arguments, (SELECTOR_FILE,), selector.selection_metric)


def _run_span_scorer(arguments: argparse.Namespace) -> None:
    training = replace(
        span_scorer.SpanScorerConfig.training,
        steps=arguments.steps,
        batch_size=arguments.batch_size,
        learning_rate=arguments.lr,
    )
    config = span_scorer.SpanScorerConfig(seed=arguments.seed, eval_examples=arguments.eval_examples, training=training)
    corpora = _read_corpora(arguments)
    device, dtype, _ = select_dtype(arguments.device, arguments.dtype)
    autocast = partial(torch.autocast, device.type, dtype, enabled=dtype is not torch.float32)
    scorer = SpanScorer(*load_minilm(torch.float32))
    _start_from(arguments, SPAN_SCORER_FILE, scorer)
    scorer.to(device)
    prompt = PromptTemplate(_load_decoder(arguments).tokenizer)
    embedder = MiniLM(select_dtype("cpu", "auto")[1])
    report = span_scorer.train_span_scorer(
        scorer, prompt, embedder, corpora, arguments.out, config, _ProgressPrinter(), autocast
    )
    print(f"Right outcome: {report['right']:.3f} of {report['questions']} questions")
    print(f"Use it with: python app.py --span-scorer {arguments.out}")
    _publish(arguments, (SPAN_SCORER_FILE,), span_scorer.selection_metric)


def _run_quote_encoder(arguments: argparse.Namespace) -> None:
    defaults = quote_encoder.QuoteEncoderConfig.training
    training = replace(defaults, steps=arguments.steps, learning_rate=arguments.lr)
    config = quote_encoder.QuoteEncoderConfig(
        seed=arguments.seed, eval_examples=arguments.eval_examples, training=training
    )
    corpora = _read_corpora(arguments)
    _, dtype, _ = select_dtype("cpu", arguments.dtype)
    autocast = partial(torch.autocast, "cpu", dtype, enabled=dtype is not torch.float32)
    encoder = load_encoder(torch.float32, (SEMANTIC_LAYER,))
    _start_from(arguments, QUOTE_ENCODER_FILE, encoder.model)
    prompt = PromptTemplate(_load_decoder(arguments).tokenizer)
    progress = _ProgressPrinter()
    report = quote_encoder.train_quote_encoder(encoder, prompt, corpora, arguments.out, config, progress, autocast)
    print(f"Closest unit is right: {report['right']:.3f} of {report['questions']} questions", end="")
    print(f" ({report['right_before']:.3f} before)")
    _publish(arguments, (QUOTE_ENCODER_FILE,), quote_encoder.selection_metric)


def _start_from(arguments: argparse.Namespace, name: str, module: torch.nn.Module) -> None:
    """Give a module the mean of the weights in the files of this name that training starts from, if there are any."""
    if arguments.init_from:
        try:
            load_mean([folder / name for folder in arguments.init_from], module)
        except (OSError, SafetensorError, ValueError) as error:
            raise SpanScorerUnusable(f"Training cannot start from these weights ({error}).") from error


def _run_questions(arguments: argparse.Namespace) -> None:
    defaults = questions.QuestionConfig.training
    config = questions.QuestionConfig(
        training=replace(defaults, steps=arguments.steps, batch_size=arguments.batch_size, learning_rate=arguments.lr),
        samples=arguments.samples,
        batch_paragraphs=arguments.batch_paragraphs,
        paragraphs=arguments.paragraphs,
        seed=arguments.seed,
    )
    weighted = map(_split_weight, arguments.data)
    corpora = [replace(corpus, weight=weight or 1.0) for path, weight in weighted for corpus in read_corpora(path)]
    decoder = _load_decoder(arguments)
    scorer = SpanScorer.load(arguments.span_scorer, *load_minilm(torch.float32)).to(decoder.device)
    counts = questions.write_questions(decoder, scorer, corpora, arguments.out, config, _ProgressPrinter())
    print(", ".join(f"{number} {name}" for name, number in counts.items()))
    print(f"Train with it: python -m training span-scorer {arguments.out} --out FOLDER")


def _run_linked_pages(arguments: argparse.Namespace) -> None:
    counts = write_linked_pages(arguments.count, arguments.seed, arguments.out)
    print(", ".join(f"{number} {name}" for name, number in counts.items()))
    print(f"Train with it: python -m training reader {arguments.out} --out FOLDER")


def _run_documents(arguments: argparse.Namespace) -> None:
    counts = write_documents(arguments.count, arguments.seed, arguments.out)
    total = sum(counts.values())
    for name, count in counts.most_common():
        print(f"{name:14} {count:7} {count / total:6.1%}")
    print(f"Train with it: python -m training reader {arguments.out} --out FOLDER")


def _read_corpora(arguments: argparse.Namespace) -> list[Corpus]:
    corpora = []
    for path, weight in map(_split_weight, arguments.data):
        for corpus in read_corpora(path):
            corpora.append(replace(corpus, weight=weight or 1.0))
            if weight and not corpus.num_questions:
                with_questions = add_cloze_questions(corpus, EVAL_SEED)
                name = f"{corpus.name}, questions made from it"  # reports are compared by it
                corpora.append(replace(with_questions, name=name, weight=weight))
    return corpora


def _split_weight(data: str) -> tuple[Path, float | None]:
    """Split 'PATH:WEIGHT'; the weight is None without a number after the last colon. Raises BadCorpus if it is <= 0."""
    path, _, number = data.rpartition(":")
    try:
        weight = float(number) if path else None
    except ValueError:
        weight = None
    if weight is None:
        return Path(data), None
    if not weight > 0:
        raise BadCorpus(f"The weight in {data!r} must be above 0.")
    return Path(path), weight


def _load_decoder(arguments: argparse.Namespace, lora_folder: Path | None = None) -> Decoder:
    device, dtype, reason = select_dtype(arguments.device, arguments.dtype)
    folder = resolve(arguments.model, arguments.models, lambda stage, done: print(f"{stage} ({done:.0%})", flush=True))
    name = Path(arguments.model).name
    print(f"{name}{' with LoRA adapter' if lora_folder else ''}, {reason}", flush=True)
    return load_decoder(folder, device, dtype, name, lora_folder)


def _publish(arguments: argparse.Namespace, files: Sequence[str], metric: Callable[[dict[str, Any]], float]) -> None:
    target = arguments.publish_to
    if target is not None:
        is_better = publish(arguments.out, target, files, metric)
        print(f"Published to {target}." if is_better else f"Not published: {target} has a better result.")


class _ProgressPrinter:
    """Print progress as lines, readable in a terminal and in a log."""

    def __init__(self) -> None:
        self._stage = ""
        self._start_s = self._next_print_s = 0.0
        self._first_done = 0

    def __call__(self, stage: str, done: int, total: int, loss: float) -> None:
        now = time.monotonic()
        if stage != self._stage:
            self._stage = stage
            self._start_s = self._next_print_s = now
            self._first_done = done
        if now < self._next_print_s and done < total:
            return
        self._next_print_s = now + PRINT_INTERVAL_S
        minutes = (now - self._start_s) / max(1, done - self._first_done) * (total - done) / 60
        loss_text = f", loss {loss:.3f}" if loss else ""
        print(f"{stage} {done}/{total}{loss_text}, about {minutes:.0f} min left", flush=True)


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Return the arguments of a command line; former names of commands and options still work."""
    names = FORMER_OPTIONS
    if words[:1] == ["selector"]:  # it trains on each example several times, so examples are not steps
        names = names | {"--lessons": "--examples", "--steps": "--examples"}
    current = [FORMER_COMMANDS.get(word, word) for word in words[:1]]
    for word in words[1:]:
        name, equals, value = word.partition("=")
        current.append(f"{names.get(name, name)}{equals}{value}")
    return _parser().parse_args(current)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m training", description=__doc__, formatter_class=HELP_FORMATTER)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    tokens = "maximum context tokens of an example"
    batch_size = "examples per step; more than one pay on a GPU"

    add = _add_command(commands, "reader", _run_reader, reader.__doc__, reader.ReaderConfig.eval_examples)
    add("--steps", type=int, default=TrainingConfig.steps)
    add("--batch-size", type=int, default=TrainingConfig.batch_size, help=batch_size)
    add("--tokens", type=int, default=DataMix.max_tokens, help=tokens)
    fraction = "fraction of the examples that are prefilled in full"
    add("--full-prefill-fraction", type=float, default=DataMix.full_prefill_fraction, help=fraction)
    fraction = "fraction of the examples whose passages are cut into shorter ones and shuffled"
    add("--split-fraction", type=float, default=DataMix.split_fraction, help=fraction)
    add("--lr", type=float, default=TrainingConfig.learning_rate, help="learning rate")
    add("--rank", type=int, default=LoraAdapterConfig.rank)
    init_from = "a finished adapter to start from, to be continued with another --seed"
    add("--init-from", type=Path, metavar="FOLDER", help=init_from)

    average = "Average LoRA adapters of which one was initialized from the other (model soups, arXiv:2203.05482)."
    add = _add_command(commands, "average", _run_average, average, reader.ReaderConfig.eval_examples)
    add("--adapters", type=Path, nargs="+", required=True, metavar="FOLDER", help="finished adapters")
    add("--tokens", type=int, default=DataMix.max_tokens, help=tokens)
    add("--rank", type=int, default=LoraAdapterConfig.rank, help="of the adapters")

    add = _add_command(commands, "selector", _run_selector, selector.__doc__, selector.SelectorConfig.eval_examples)
    add("--examples", type=int, default=selector.SelectorConfig.examples, help="with up to 5 questions each")
    add("--tokens", type=int, default=DataMix.max_tokens, help=tokens)
    add("--epochs", type=int, default=selector.SelectorConfig.epochs)
    add("--lr", type=float, default=selector.SelectorConfig.learning_rate, help="learning rate")
    add("--lora-adapter", default="auto", help="of the model: auto (the bundled one), off, or a folder")

    defaults = span_scorer.SpanScorerConfig
    add = _add_command(commands, "span-scorer", _run_span_scorer, span_scorer.__doc__, defaults.eval_examples)
    add("--steps", type=int, default=defaults.training.steps)
    add("--batch-size", type=int, default=TrainingConfig.batch_size, help=batch_size)
    add("--lr", type=float, default=defaults.training.learning_rate, help="learning rate")
    init_from = "finished results to start from: their mean; with --steps 0 it is only evaluated and written"
    add("--init-from", type=Path, nargs="+", metavar="FOLDER", help=init_from)

    config = quote_encoder.QuoteEncoderConfig
    add = _add_command(commands, "quote-encoder", _run_quote_encoder, quote_encoder.__doc__, config.eval_examples)
    add("--steps", type=int, default=config.training.steps)
    add("--lr", type=float, default=config.training.learning_rate, help="learning rate")
    add("--init-from", type=Path, nargs="+", metavar="FOLDER", help=init_from)

    add = _add_command(commands, "questions", _run_questions, questions.__doc__)
    add("--steps", type=int, default=questions.QuestionConfig.training.steps, help="of training the writer")
    add("--batch-size", type=int, default=questions.QuestionConfig.training.batch_size, help=batch_size)
    add("--lr", type=float, default=TrainingConfig.learning_rate, help="learning rate")
    together = "written about at the same time"
    add("--batch-paragraphs", type=int, default=questions.QuestionConfig.batch_paragraphs, help=together)
    add("--samples", type=int, default=questions.QuestionConfig.samples, help="questions drawn per paragraph")
    add("--paragraphs", type=int, default=questions.QuestionConfig.paragraphs, help="to write about, at most")
    add("--span-scorer", type=Path, default=SPAN_SCORER, metavar="FOLDER", help="that checks the questions")

    documents = "Write invented documents with questions, as data for the other commands."
    count = "documents; of those in two versions, each counts"
    _add_generator(commands, "documents", _run_documents, documents, count)
    pages = "Write invented pages that refer to one another, with questions that need several of them."
    _add_generator(commands, "linked-pages", _run_linked_pages, pages, "collections of 5 to 9 pages")
    return parser


def _add_generator(
    commands: Any, name: str, run: Callable[[argparse.Namespace], None], description: str, count: str
) -> None:
    command = commands.add_parser(name, help=description.rstrip("."), description=description)
    command.set_defaults(run=run)
    command.add_argument("--count", type=int, default=3000, help=count)
    command.add_argument("--seed", type=int, default=0)
    command.add_argument("--out", type=Path, required=True, metavar="FILE.jsonl")


def _add_command(
    commands: Any, name: str, run: Callable[[argparse.Namespace], None], doc: str | None, eval_examples: int = 0
) -> Callable[..., argparse.Action]:
    """Add a subcommand with the shared arguments; return its `add_argument`.

    With `eval_examples`, its result is evaluated and can be published.
    """
    description = (doc or "").strip()
    summary = description.split("\n")[0].rstrip(".")
    parser = commands.add_parser(name, help=summary, description=description, formatter_class=HELP_FORMATTER)
    parser.set_defaults(run=run)
    add: Callable[..., argparse.Action] = parser.add_argument
    add("data", nargs="+", metavar="DATA[:WEIGHT]")
    is_evaluated = eval_examples > 0
    out = "folder for checkpoints, result and report" if is_evaluated else "file to write"
    add("--out", type=Path, required=True, help=out)
    if is_evaluated:
        add("--publish-to", type=Path, metavar="FOLDER", help="copy the result there if its report is better")
        add("--eval-examples", type=int, default=eval_examples, help="held-out examples to evaluate with")
    add("--model", default=BUNDLED_MODEL, help="folder or name on the Hugging Face Hub")
    add("--models", type=Path, default=default_data_folder() / "models", help="where the bundled model is unpacked")
    add("--device", default="auto")
    add("--dtype", choices=["auto", "bf16", "fp32"], default="auto")
    add("--seed", type=int, default=0)
    return add


if __name__ == "__main__":
    sys.exit(main())
