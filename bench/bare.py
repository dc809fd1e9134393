"""An engine without a library: the bench brings the passages itself, and nothing is written to disk."""

from argparse import Namespace
from collections.abc import Callable

from torch import Tensor

from bench.items import Cut
from engine.pipeline import Engine
from engine.startup import ModelConfig, build_engine, load_models
from store.chunk import ChunkConfig, split
from store.types import Hit

HOST_BYTES = 3 * 2**30


class NoBlobs:
    """A store that keeps nothing: chunk KV lives in memory, for as long as it is used."""

    size_bytes = 0

    def put(self, key: str, tensors: dict[str, Tensor]) -> None:
        pass

    def get(self, key: str) -> dict[str, Tensor]:
        raise KeyError(key)

    def delete(self, key: str) -> None:
        pass

    def __contains__(self, key: str) -> bool:
        return False


class NoLibrary:
    """Finds nothing."""

    def search(self, question: str, top: int) -> list[Hit]:
        return []


def model_config(arguments: Namespace) -> ModelConfig:
    """Return which models the command line names, and where they run."""
    return ModelConfig(
        folder=arguments.data / "models",
        model=arguments.model,
        auxiliary=arguments.auxiliary,
        device=arguments.device,
        dtype=arguments.dtype,
        reader=arguments.reader,
        selector=arguments.selector,
    )


def open_engine(arguments: Namespace) -> Engine:
    """Return an engine on the models that the command line names."""
    models = load_models(model_config(arguments))
    return build_engine(models, lambda tokenizer: NoLibrary(), NoBlobs(), HOST_BYTES)


def cutter(engine: Engine, tokens: int) -> Cut:
    """Return a function that cuts a text into chunks of at most `tokens`, without overlap: joined they are the text."""
    tokenizer = engine.prompt.tokens.data

    def cut(text: str) -> list[str]:
        return [text[start:end] for start, end in split(text, tokenizer, ChunkConfig(tokens, 0))]

    return cut


def measurer(engine: Engine) -> Callable[[str], int]:
    """Return a function that counts a passage's tokens as it stands in the prompt."""
    tokens = engine.prompt.tokens
    return lambda text: len(tokens.encode(text.strip() + "\n\n").ids)
