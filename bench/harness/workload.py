"""A library of known size: synthetic text, real index and store, all in one temporary folder."""

import random
import tempfile
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from tokenizers import Tokenizer

from bench.harness.engine import model_config
from engine.builder import build_engine, load_models
from engine.cache.tiers.hierarchy import CacheHierarchy, CacheHierarchyConfig
from engine.engine import Engine
from engine.model.loading.load import select_dtype
from engine.request import Request
from engine.trace import Trace
from store.kv.blobs import DiskBlobs
from store.library.library import DocumentLibrary, LibraryConfig
from store.retrieval.minilm import MiniLM, MiniLMConfig

CHUNK_TOKENS = 512
MAX_QUESTIONS = 64  # per workload; the first is for warm-up
GIB = 2**30
_PLACES = "harbour mill quarry chapel orchard bridge depot lighthouse market station archive granary".split()
_PEOPLE = "Adams Brandt Castro Dahl Eriksen Farah Grieg Hansen Ito Jansen Kowalski Lund Meyer Novak Okafor".split()
_THINGS = "engine ledger lantern cable barrel timber compass boiler rudder ticket crate signal pump".split()
_DEEDS = "repaired counted moved painted sold inspected lost borrowed measured replaced registered".split()


@dataclass(frozen=True)
class Workload:
    """An engine over one long document, and questions about it.

    passages  number of passages that make up `length` context tokens
    """

    engine: Engine
    tiers: CacheHierarchy
    questions: list[str]
    passages: int
    length: int

    def request(self, number: int, method: str = "cacheclip", ratio: float = 0.2) -> Request:
        """Return question `number`; number 0 is for warm-up."""
        return Request(self.questions[number], method, ratio, self.passages, max_new_tokens=64)

    def warm(self, samples: int) -> None:
        """Compute the chunk KV of every passage retrieved for questions 0 to `samples`."""
        for number in range(samples + 1):
            for text in self.engine.prepare(self.request(number), Trace()).texts:
                self.engine.passages.warm(text)


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

        def library(tokenizer: Tokenizer) -> DocumentLibrary:
            embedder = MiniLM(MiniLMConfig(dtype=select_dtype("cpu", arguments.dtype)[1]))
            documents = DocumentLibrary(root / "library", tokenizer, embedder, LibraryConfig())
            text = root / "text.txt"
            text.write_text("\n\n\n".join(make_paragraph(rng, tokenizer) for _ in range(passages + 4)))
            for _ in documents.add(text, text.name):
                pass
            return documents

        tiers = CacheHierarchy(CacheHierarchyConfig(4 * GIB, 64 * GIB), DiskBlobs(root / "kv"), models.primary.device)
        engine = build_engine(models, library, tiers)
        engine.max_tokens = length + 1024  # timing only: beyond the training length, quality suffers but time does not
        pairs = rng.sample(list(product(_DEEDS, _THINGS)), MAX_QUESTIONS)
        questions = [f"Who {deed} the {thing}, and where?" for deed, thing in pairs]
        yield Workload(engine, tiers, questions, passages, length)


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
