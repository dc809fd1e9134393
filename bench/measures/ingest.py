"""Time to read and embed documents: per file, and per page of PDF files and pictures.

Every file of FOLDER is read and embedded `--num-samples` times, after a run for warm-up. Scanned pages need text
recognition (requirements-ocr.txt). Files that cannot be read are reported and left out.
"""

import sys
import time
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from transformers import AutoTokenizer

from bench.bootstrap import medians
from bench.tables import columns_of, progress
from engine.model.loading.load import select_dtype
from engine.model.loading.resolve import resolve
from store.catalog.document_text import make_chunks
from store.document_library import BATCH_CHUNKS
from store.errors import KVScopeError
from store.ingest import read_file
from store.ingest.chunker import ChunkConfig, split
from store.ingest.document import ParsedDocument, finish
from store.ingest.isolated import parse_isolated
from store.ingest.sniff import detect_format
from store.retrieval.minilm import MiniLM
from store.retrieval.segments import embed_chunks
from store.types import Chunk, Document, Embedder

TITLE = "reading and embedding documents"
COLUMNS = columns_of("file format pages characters parse_ms ms_per_page chunks embed_ms ocr_pages n")


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of this measure."""
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="its files are read; folders in it are not")
    parser.set_defaults(samples=3)


def run(arguments: Namespace) -> list[dict[str, Any]]:
    """Return one row per file, with the median times over the runs; `pages` is None for formats without pages."""
    files = sorted(path for path in arguments.folder.iterdir() if path.is_file())
    tokenizer = AutoTokenizer.from_pretrained(resolve(arguments.model, arguments.data / "models")).backend_tokenizer
    embedder = MiniLM(select_dtype("cpu", arguments.dtype)[1])
    rows = []
    for file in progress(files, "Files"):
        try:
            rows.append(measure(file, tokenizer, embedder, arguments.samples))
        except KVScopeError as error:
            print(error, file=sys.stderr)
    return rows


def measure(file: Path, tokenizer: Tokenizer, embedder: Embedder, runs: int) -> dict[str, Any]:
    """Return a file's row. Raises UnreadableDocument or DocumentTooLarge."""
    data = read_file(file, file.name)
    times = []
    for _ in range(runs + 1):
        start = time.perf_counter()
        parsed = finish(parse_isolated(data, file.name))
        parsed_at = time.perf_counter()
        chunks = _chunk(file.name, parsed, tokenizer)
        chunked_at = time.perf_counter()
        _embed(chunks, embedder)
        embedded_at = time.perf_counter()
        times.append({"parse_ms": 1000 * (parsed_at - start), "embed_ms": 1000 * (embedded_at - chunked_at)})
    medians_ms = medians(times[1:])
    pages = len(parsed.page_starts) or None
    return {
        "file": file.name,
        "format": detect_format(data, file.name),
        "pages": pages,
        "characters": len(parsed.text),
        "ms_per_page": medians_ms["parse_ms"] / pages if pages else None,
        "chunks": len(chunks),
        "ocr_pages": parsed.recognized_pages,
    } | medians_ms


def _chunk(name: str, parsed: ParsedDocument, tokenizer: Tokenizer) -> list[Chunk]:
    document = Document("", name, 0, None, 0, 0.0)
    return make_chunks(document, "", parsed, split(parsed.text, tokenizer, ChunkConfig()))


def _embed(chunks: list[Chunk], embedder: Embedder) -> None:
    """Embed chunks in the batches of the library."""
    for start in range(0, len(chunks), BATCH_CHUNKS):
        embed_chunks(embedder, chunks[start : start + BATCH_CHUNKS])
