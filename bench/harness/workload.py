"""A library of known size: synthetic text, real index and store, all in one temporary folder."""

import random
import tempfile
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TypeVar

from tokenizers import Tokenizer

from bench.harness.engine import model_config
from bench.tables import progress
from engine.builder import build_engine, load_models
from engine.cache.hierarchy import CacheHierarchy, CacheHierarchyConfig
from engine.engine import Engine
from engine.model.loading.load import select_dtype
from engine.request import Request
from engine.trace import Trace
from store.document_library import DocumentLibrary
from store.kv.blobs import DiskBlobs
from store.retrieval.minilm import MiniLM

T = TypeVar("T")
CHUNK_TOKENS = 512
MAX_QUESTIONS = 64  # per workload, the one for warm-up included
GIB = 2**30
_PLACES = "harbour mill quarry chapel orchard bridge depot lighthouse market station archive granary".split()
_PEOPLE = "Adams Brandt Castro Dahl Eriksen Farah Grieg Hansen Ito Jansen Kowalski Lund Meyer Novak Okafor".split()
_THINGS = "engine ledger lantern cable barrel timber compass boiler rudder ticket crate signal pump".split()
_DEEDS = "repaired counted moved painted sold inspected lost borrowed measured replaced registered".split()


@dataclass(frozen=True)
class Workload:
    """An engine over one long document, and questions about it; question 0 is for warm-up."""

    engine: Engine
    tiers: CacheHierarchy
    questions: list[str]
    passages: int  # retrieved per question

    @property
    def numbers(self) -> range:
        return range(len(self.questions))

    def request(self, number: int) -> Request:
        return Request(self.questions[number], passages=self.passages, max_new_tokens=64)


def open_library(root: Path, tokenizer: Tokenizer, dtype: str) -> DocumentLibrary:
    """Open an empty library in a folder as the application does; `dtype` is that of the command line."""
    return DocumentLibrary(root / "library", tokenizer, MiniLM(select_dtype("cpu", dtype)[1]))


@contextmanager
def open_workload(arguments: Namespace, length: int) -> Iterator[Workload]:
    """Open a workload of about `length` context tokens per question; its folder is deleted at the end of the block."""
    if length < CHUNK_TOKENS // 4:
        raise ValueError(f"--context-lengths must be at least {CHUNK_TOKENS // 4}, got {length}")
    if arguments.samples >= MAX_QUESTIONS:
        raise ValueError(f"--num-samples is at most {MAX_QUESTIONS - 1}")
    rng = random.Random(arguments.seed)
    models, passages = load_models(model_config(arguments)), max(1, round(length / CHUNK_TOKENS))
    with tempfile.TemporaryDirectory(prefix="kvscope-bench-") as folder:
        root = Path(folder)

        def open_filled_library(tokenizer: Tokenizer) -> DocumentLibrary:
            library = open_library(root, tokenizer, arguments.dtype)
            text = root / "text.txt"
            text.write_text("\n\n\n".join(make_paragraph(rng, tokenizer) for _ in range(passages + 4)))
            for _ in library.add(text, text.name):
                pass
            return library

        tiers = CacheHierarchy(CacheHierarchyConfig(4 * GIB, 64 * GIB), DiskBlobs(root / "kv"), models.primary.device)
        engine = build_engine(models, open_filled_library, tiers)
        engine.max_tokens = length + 1024  # timing only: beyond the training length, quality suffers but time does not
        yield Workload(engine, tiers, make_questions(rng, arguments.samples + 1), passages)


def ask_all(
    arguments: Namespace, measure: Callable[[Workload, int], dict[T, dict[str, float]]]
) -> Iterator[tuple[int, dict[T, list[dict[str, float]]]]]:
    """Yield for each length what `measure` returns for all questions but the first, by what it compares."""
    for length in arguments.lengths:
        with open_workload(arguments, length) as work:
            for number in work.numbers:  # compute the chunk KV of every passage
                for text in work.engine.prepare(work.request(number), Trace()).texts:
                    work.engine.passages.warm(text)
            _, *questions = [measure(work, number) for number in progress(work.numbers, f"{length} tokens")]
        yield length, {compared: [question[compared] for question in questions] for compared in questions[0]}


def make_questions(rng: random.Random, number: int) -> list[str]:
    """Return different questions about such paragraphs, at most MAX_QUESTIONS."""
    pairs = rng.sample(list(product(_DEEDS, _THINGS)), MAX_QUESTIONS)
    return [f"Who {deed} the {thing}, and where?" for deed, thing in pairs[:number]]


def make_paragraph(rng: random.Random, tokenizer: Tokenizer) -> str:
    """Return random sentences that fill one chunk to within a few tokens."""
    text, max_tokens = "", CHUNK_TOKENS - 4
    while True:
        person, place, number = rng.choice(_PEOPLE), rng.choice(_PLACES), rng.randrange(10**4, 10**7)
        sentence = f"{person} {rng.choice(_DEEDS)} the {rng.choice(_THINGS)} at the {place} under number {number}. "
        if len(tokenizer.encode(text + sentence, add_special_tokens=False).ids) > max_tokens:
            break
        text += sentence
    while len(tokenizer.encode(text + "So it was. ", add_special_tokens=False).ids) <= max_tokens:
        text += "So it was. "
    return text.strip()
