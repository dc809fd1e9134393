"""Embed text with a sentence-transformers model on the CPU: base of the bundled one, and models of the user's choice.

Only safetensors weights are loaded, and no code from a model repository is run. A chunk of 512 tokens is about sixteen
segments. Importing this module takes seconds (sentence-transformers).
"""

import hashlib
import json
import threading
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer

from store.errors import KVScopeError
from store.ingest.chunker import ChunkConfig, split
from store.retrieval import hub
from store.retrieval.segments import CONTEXT_WEIGHT

SEGMENT_TOKENS = 32  # of the embedder, a sentence or two: a chunk is as near to a question as its nearest segment
MAX_QUESTION_TOKENS = 254  # without special tokens; a model silently truncates more than its limit
MIN_LIMIT = MAX_QUESTION_TOKENS + 2  # of a model, so that questions and segments fit
BATCH_SIZE = 16  # segments per forward pass; more is no faster on a CPU
MODULES = {"Transformer", "Pooling", "Normalize"}  # of sentence-transformers; others may load pickled weights or code
E5_PROMPTS = ("query: ", "passage: ")  # which the models named e5 need and older ones do not declare


class EmbeddingModelUnusable(KVScopeError):
    hint = (
        "Set --embedding-model to the folder or Hugging Face name of a sentence-transformers model with safetensors "
        "weights, or to auto."
    )


class SentenceEmbedder:
    """An Embedder over the model in a folder, loaded at first use."""

    name = ""
    is_english = False
    _kind = "sentence"  # in the fingerprint
    _prompts = ("", "")  # in front of questions and of segments

    def __init__(self, folder: Path, dtype: torch.dtype) -> None:
        self._folder = folder
        self._dtype = dtype
        self._lock = threading.RLock()  # the model's tokenizer is not thread-safe

    @cached_property
    def fingerprint(self) -> str:
        return f"{self._kind}-{SEGMENT_TOKENS}-{CONTEXT_WEIGHT}-{self._digest()}"

    def _digest(self) -> str:
        """Return digits that identify the weights."""
        with (self._folder / "model.safetensors").open("rb") as weights:
            return hashlib.file_digest(weights, "sha256").hexdigest()[:32]

    @cached_property
    def num_parameters(self) -> int:
        return sum(parameter.numel() for parameter in self._model.parameters())

    @cached_property
    def max_tokens(self) -> int:
        return int(self._model.max_seq_length or MIN_LIMIT)

    def segments(self, text: str) -> list[str]:
        spans = split(text, self._tokenizer, ChunkConfig(tokens=SEGMENT_TOKENS, overlap=0))
        return [text[start:end] for start, end in spans] or [text]

    def truncate_left(self, text: str) -> str:
        offsets = self._tokenizer.encode(text, add_special_tokens=False).offsets
        return text if len(offsets) <= MAX_QUESTION_TOKENS else text[offsets[-MAX_QUESTION_TOKENS][0] :]

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        return self._encode(texts, self._prompts[1])

    def embed_question(self, question: str) -> np.ndarray:
        return self._encode([question], self._prompts[0])[0]

    def _encode(self, texts: Sequence[str], prompt: str) -> np.ndarray:
        if not texts:
            return np.empty((0, self._model.get_embedding_dimension() or 0), np.float32)
        prompted = [prompt + text for text in texts]
        with self._lock:
            vectors = self._model.encode(
                prompted, prompt="", batch_size=BATCH_SIZE, show_progress_bar=False, convert_to_tensor=True
            )
        return F.normalize(vectors.float(), dim=-1).numpy()

    @cached_property
    def _model(self) -> SentenceTransformer:
        return self._load()

    def _load(self) -> SentenceTransformer:
        return SentenceTransformer(
            str(self._folder),
            device="cpu",
            local_files_only=True,
            model_kwargs={"dtype": self._dtype, "use_safetensors": True},
        )

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        tokenizer = Tokenizer.from_file(str(self._folder / "tokenizer.json"))
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return tokenizer


class EmbeddingModel(SentenceEmbedder):
    """A model of the user's choice: a folder, or a name on the hub. Raises EmbeddingModelUnusable."""

    def __init__(self, name: str, dtype: torch.dtype = torch.float32) -> None:
        self.name = Path(name).name if Path(name).expanduser().is_dir() else name

        def load(folder: str) -> None:
            for name in ("_model", "_tokenizer", "fingerprint", "max_tokens"):  # of an incomplete copy of the files
                self.__dict__.pop(name, None)
            SentenceEmbedder.__init__(self, Path(folder), dtype)
            _check_modules(Path(folder))
            self._prompts = _prompts(self.name, self._model)
            self._kind = f"sentence-{_settings_digest(Path(folder), self._prompts)}"
            _ = self._tokenizer, self.fingerprint, self.embed(["x"])

        try:
            hub.load(name, load)
        except Exception as error:  # the loaders raise many types on foreign files
            raise _unusable(name, error) from error
        if self.max_tokens < MIN_LIMIT:
            raise EmbeddingModelUnusable(f"The embedding model {name!r} reads {self.max_tokens} tokens at most.")


def download(name: str) -> None:
    """Download a model's files without loading them. Raises EmbeddingModelUnusable."""
    try:
        hub.download(name)
    except Exception as error:  # the hub client and the network raise many types
        raise _unusable(name, error) from error


def _unusable(name: str, error: Exception) -> EmbeddingModelUnusable:
    return EmbeddingModelUnusable(f"The embedding model {name!r} cannot be used ({hub.reason_of(error)}).")


def _check_modules(folder: Path) -> None:
    """Raise ValueError for a model that is more than a transformer with pooling."""
    modules = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
    for module in modules:
        package, *_, kind = str(module["type"]).split(".")
        if package != "sentence_transformers" or kind not in MODULES:
            raise ValueError(f"its module {module['type']} is not supported")
    if modules[0].get("path"):
        raise ValueError("its transformer is in a folder of its own")
    if (folder / "adapter_config.json").exists():
        raise ValueError("it is an adapter of another model")


def _settings_digest(folder: Path, prompts: tuple[str, str]) -> str:
    """Return eight digits that identify what makes vectors besides the weights: pooling, tokenizer, prompts."""
    digest = hashlib.sha256(repr(prompts).encode())
    for path in sorted(folder.rglob("*.json")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:8]


def _prompts(name: str, model: SentenceTransformer) -> tuple[str, str]:
    """Return what is written in front of questions and segments."""
    prompts = {key: text for key, text in (model.prompts or {}).items() if text}
    if not prompts and "e5" in name.lower().replace("_", "-").split("/")[-1].split("-"):
        return E5_PROMPTS
    return prompts.get("query", ""), prompts.get("document", prompts.get("passage", ""))
