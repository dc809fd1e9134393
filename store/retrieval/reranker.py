"""A cross-encoder as the reranker: one model reads question and passage together and gives the pair one score.

It judges better than two vectors made apart, at the cost of a pass for each pair. It reads 512 tokens of a pair, or
fewer where the model ends earlier; of a longer pair the end of the longer text is unread. Weights are safetensors, and
no code that comes with a model is run. Importing this file takes seconds (sentence-transformers), so only the wiring
does. Source: Nogueira and Cho, Passage Re-ranking with BERT, arXiv 1901.04085.
"""

import threading
from collections.abc import Sequence
from pathlib import Path

import torch
from huggingface_hub import snapshot_download
from sentence_transformers import CrossEncoder

from store.errors import KVScopeError

MAX_TOKENS = 512  # tokens of question and passage together
BATCH_SIZE = 16  # pairs in one pass, which bounds the memory it takes
FILE_PATTERNS = ["*.safetensors", "*.json", "*.txt", "*.model"]  # of a model on the hub; never pickled weights
HEAD = "ForSequenceClassification"  # ends the architecture's name when the weights have a head that scores


class RerankerUnusable(KVScopeError):
    hint = "Give --reranker a folder, or a name on the hub, of a cross-encoder with safetensors weights; or off."


def download(name: str) -> None:
    """Bring a cross-encoder's files to this machine; nothing is loaded. Raises RerankerUnusable."""
    if Path(name).expanduser().is_dir():
        return
    try:
        snapshot_download(name, allow_patterns=FILE_PATTERNS)
    except Exception as error:  # whatever the hub and the network make the client raise
        raise _unreadable(name, error) from error


class CrossEncoderReranker:
    """A Reranker on the CPU, in fp32, loaded at once. Threads take turns: the tokenizer cannot serve two at once.

    name  a folder in Hugging Face format, or a name on the hub: the hub's cache is asked first, then the hub

    Raises RerankerUnusable if there is no such model, it cannot be read, or it does not give one score a pair.
    """

    def __init__(self, name: str) -> None:
        self._turn = threading.Lock()
        try:
            self._model = _find(name)
        except Exception as error:  # whatever the files of strangers make the loaders raise
            raise _unreadable(name, error) from error
        if reason := _misfit(self._model):
            raise RerankerUnusable(f"The reranker {name!r} cannot be used: {reason}.")
        self._model.max_seq_length = min(MAX_TOKENS, self._model.max_seq_length or MAX_TOKENS)

    def score(self, question: str, texts: Sequence[str]) -> list[float]:
        """Return the model's logit for each text, in the order of `texts`; the higher, the better it fits."""
        if not texts:
            return []
        pairs = [(question, text) for text in texts]
        with self._turn:
            return self._model.predict(pairs, batch_size=BATCH_SIZE, show_progress_bar=False).tolist()


def _unreadable(name: str, error: Exception) -> RerankerUnusable:
    reason = str(error).partition("\n")[0].rstrip(".") or type(error).__name__
    return RerankerUnusable(f"The reranker {name!r} cannot be read ({reason}).")


def _find(name: str) -> CrossEncoder:
    folder = Path(name).expanduser()
    if folder.is_dir():
        return _load(folder)
    try:
        return _load(snapshot_download(name, allow_patterns=FILE_PATTERNS, local_files_only=True))
    except OSError:  # the hub's cache does not have it, or not all of it
        return _load(snapshot_download(name, allow_patterns=FILE_PATTERNS))


def _load(folder: str | Path) -> CrossEncoder:
    return CrossEncoder(
        str(folder),
        device="cpu",
        local_files_only=True,
        model_kwargs={"use_safetensors": True, "dtype": torch.float32},
        activation_fn=torch.nn.Identity(),  # a sigmoid would make equals of all that fit well
    )


def _misfit(model: CrossEncoder) -> str:
    """Say why a model that can be read cannot score; the loaders make up heads and tokenizers that are missing."""
    architecture = ((model.config and model.config.architectures) or ["model of an unknown kind"])[0]
    if not architecture.endswith(HEAD):
        return f"a {architecture} is no cross-encoder"
    if model.num_labels != 1:
        return f"it gives {model.num_labels} scores a pair, not one"
    if len(model.tokenizer) <= len(set(model.tokenizer.all_special_ids)):
        return "its tokenizer is missing"
    return ""
