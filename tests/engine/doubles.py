"""Small stand-ins for the store, and an engine on a tiny model."""

from engine.pipeline import Engine
from engine.prompt import Prompt
from engine.reuse.auxiliary import Auxiliary
from engine.reuse.chunks import ChunkCache, HostTier
from store.errors import StoreFull
from store.types import Chunk, Hit
from tests import tiny

TEXTS = {
    "ferry": "The Old Kestrel sails to Port Arden every morning. Its maintenance code is 5663623, as the log says.",
    "tern": "The Silver Tern carries 18 cars to Low Island. It was built in 1998 and repaired twice since then.",
    "fares": "An adult ticket costs 12 pounds. Children under five travel free, dogs pay 2 pounds on every boat.",
    "crew": "Captain Ingrid Dahl leads the crew.",
}


class MemoryBlobs:
    """A BlobStore in a dict; `full` makes it refuse to write."""

    def __init__(self):
        self.held, self.full = {}, False

    def put(self, key, tensors):
        if self.full:
            raise StoreFull("No space left on device.")
        self.held[key] = {name: tensor.clone() for name, tensor in tensors.items()}

    def get(self, key):
        return self.held[key]

    def delete(self, key):
        self.held.pop(key, None)

    def __contains__(self, key):
        return key in self.held

    @property
    def size_bytes(self):
        return sum(t.nbytes for held in self.held.values() for t in held.values())


class FixedLibrary:
    """Finds the same chunks, in the same order, whatever is asked."""

    def __init__(self, *names):
        self.found = [hit(name, TEXTS.get(name, name)) for name in names]

    def search(self, question, top):
        return self.found[:top]


def hit(name, text):
    return Hit(Chunk(f"{name}-0", name, f"{name}.txt", 0, None, 0, len(text), text), 0.03, 0.5, True)


def engine(*names, build=tiny.llama, auxiliary=None, blobs=None, host_bytes=2**30):
    """An engine over the named texts. `auxiliary`: None shares the primary, else a decoder of its own."""
    decoder = tiny.decoder(build)
    prompt = Prompt(decoder.tokenizer)
    host, blobs = HostTier(host_bytes), blobs or MemoryBlobs()
    cache = ChunkCache(decoder, prompt.prefix, host, blobs)
    if auxiliary is None:
        return Engine(FixedLibrary(*names), cache, prompt, Auxiliary(cache, prompt))
    own = Prompt(auxiliary.tokenizer)
    scorer = Auxiliary(ChunkCache(auxiliary, own.prefix, host, blobs), own)
    return Engine(FixedLibrary(*names), cache, prompt, scorer)


def last(answers):
    """Run a growing answer to its end."""
    return list(answers)[-1]
