"""Rerank with a cross-encoder, which reads question and chunk together (Nogueira and Cho, 2019, arXiv 1901.04085).

Only safetensors weights are loaded, and no code from a model repository is run. Importing this module takes seconds.
"""

import threading
from collections.abc import Sequence

import torch
from sentence_transformers import CrossEncoder

from store.errors import KVScopeError
from store.retrieval import hub

MAX_TOKENS = 512  # of question and chunk together; of longer pairs, the longer text is truncated
BATCH_SIZE = 16  # pairs per forward pass; bounds its memory
HEAD = "ForSequenceClassification"  # suffix of the architecture's name if the weights include a scoring head


class RerankerUnusable(KVScopeError):
    hint = "Set --reranker to the folder or Hugging Face name of a cross-encoder with safetensors weights, or to off."


def download(name: str) -> None:
    """Download a cross-encoder's files without loading them. Raises RerankerUnusable."""
    try:
        hub.download(name)
    except Exception as error:  # the hub client and the network raise many types
        raise _unreadable(name, error) from error


class CrossEncoderReranker:
    """A Reranker on the CPU, in fp32, from a folder in Hugging Face format or a name on the hub.

    Raises RerankerUnusable if the model is missing or unreadable, or does not give one score per pair.
    """

    def __init__(self, name: str) -> None:
        self._lock = threading.Lock()  # the tokenizer is not thread-safe
        try:
            self.model = hub.load(name, _load_folder)
        except Exception as error:  # the loaders raise many types on foreign files
            raise _unreadable(name, error) from error
        if problem := _find_problem(self.model):
            raise RerankerUnusable(f"The reranker {name!r} cannot be used: {problem}.")
        self.model.max_seq_length = min(MAX_TOKENS, self.model.max_seq_length or MAX_TOKENS)

    def score(self, question: str, texts: Sequence[str]) -> list[float]:
        """Return the model's logit for each text."""
        if not texts:
            return []
        pairs = [(question, text) for text in texts]
        with self._lock:
            return self.model.predict(pairs, batch_size=BATCH_SIZE, show_progress_bar=False).tolist()


def _unreadable(name: str, error: Exception) -> RerankerUnusable:
    return RerankerUnusable(f"The reranker {name!r} cannot be read ({hub.reason_of(error)}).")


def _load_folder(folder: str) -> CrossEncoder:
    return CrossEncoder(
        folder,
        device="cpu",
        local_files_only=True,
        model_kwargs={"use_safetensors": True, "dtype": torch.float32},
        activation_fn=torch.nn.Identity(),  # a sigmoid would saturate and make all good matches equal
    )


def _find_problem(model: CrossEncoder) -> str:
    """Return why a loaded model cannot score pairs, or ''; the loaders silently create missing heads and tokenizers."""
    architecture = ((model.config and model.config.architectures) or ["model of an unknown kind"])[0]
    if not architecture.endswith(HEAD):
        return f"a {architecture} is not a cross-encoder"
    if model.num_labels != 1:
        return f"it gives {model.num_labels} scores per pair, not one"
    if len(model.tokenizer) <= len(set(model.tokenizer.all_special_ids)):
        return "its tokenizer is missing"
    return ""
