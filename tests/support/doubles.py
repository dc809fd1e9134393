"""Small stand-ins for the store, and an engine on a tiny model."""

import re
from threading import Event

import torch

from engine.analysis.inspect import inspect
from engine.cache.tiers.hierarchy import CacheHierarchy, CacheHierarchyConfig
from engine.engine import Engine
from engine.kv.chunk_cache import ChunkCache
from engine.prompt.template import Prompt
from engine.scoring.auxiliary import AuxiliaryScorer
from store.errors import StoreFull
from store.types import Chunk, Document, Hit
from tests.support import tiny

TEXTS = {
    "ferry": "The Old Kestrel sails to Port Arden every morning. Its maintenance code is 5663623, as the log says.",
    "tern": "The Silver Tern carries 18 cars to Low Island. It was built in 1998 and repaired twice since then.",
    "fares": "An adult ticket costs 12 pounds. Children under five travel free, dogs pay 2 pounds on every boat.",
    "crew": "Captain Ingrid Dahl leads the crew.",
}


class MemoryBlobs:
    """A BlobStore in a dict; `full` makes it refuse to write."""

    def __init__(self):
        self.held, self.about, self.full = {}, {}, False

    def put(self, key, tensors, note=""):
        if self.full:
            raise StoreFull("No space left on device.")
        self.held[key] = {name: tensor.clone() for name, tensor in tensors.items()}
        self.about[key] = note

    def get(self, key):
        return self.held[key]

    def delete(self, key):
        self.held.pop(key, None)
        self.about.pop(key, None)

    def notes(self):
        return dict(self.about)

    def annotate(self, notes):
        self.about.update({key: note for key, note in notes.items() if key in self.held})

    def __contains__(self, key):
        return key in self.held

    @property
    def size_bytes(self):
        return sum(t.nbytes for held in self.held.values() for t in held.values())


class FixedLibrary:
    """Finds the same chunks, in the same order, whatever is asked."""

    def __init__(self, *names):
        self.found = [hit(name, TEXTS.get(name, name)) for name in names]

    def stages(self, question, top, documents=()):
        yield self.found[:top]

    def documents(self):
        return [Document(hit.chunk.document_id, hit.chunk.document_name, 1, None, 1, 0.0) for hit in self.found]

    def chunks(self, document_id):
        return [hit.chunk for hit in self.found if hit.chunk.document_id == document_id]

    def chunks_by_id(self, ids):
        return {hit.chunk.id: hit.chunk for hit in self.found if hit.chunk.id in ids}


class Shelf:
    """A Finder over documents, given as name=list of texts; the more of a question's words a passage holds, the better.

    asked  what was searched for
    """

    def __init__(self, **documents):
        self.held = {
            name: [
                Chunk(f"{name}-{at}", name, f"{name}.txt", at, None, 0, len(text), text)
                for at, text in enumerate(texts)
            ]
            for name, texts in documents.items()
        }
        self.asked = []

    def stages(self, question, top, documents=()):
        self.asked.append(question)
        words = set(re.findall(r"\w+", question.lower()))
        shared = [
            (len(words.intersection(re.findall(r"\w+", chunk.text.lower()))), chunk)
            for name, chunks in self.held.items()
            for chunk in chunks
            if not documents or name in documents
        ]
        ranked = sorted((pair for pair in shared if pair[0]), key=lambda pair: -pair[0])
        yield [Hit(chunk, score, score / 100, True) for score, chunk in ranked][:top]

    def documents(self):
        return [Document(name, f"{name}.txt", 1, None, len(chunks), 0.0) for name, chunks in self.held.items()]

    def chunks(self, document_id):
        return self.held.get(document_id, [])

    def chunks_by_id(self, ids):
        return {chunk.id: chunk for chunks in self.held.values() for chunk in chunks if chunk.id in ids}


def hit(name, text):
    return Hit(Chunk(f"{name}-0", name, f"{name}.txt", 0, None, 0, len(text), text), 0.03, 0.5, True)


def tiers(host_bytes=2**30, disk_bytes=2**30, blobs=None, **settings):
    """A knowledge tree over memory and a disk that is a dict."""
    return CacheHierarchy(
        CacheHierarchyConfig(host_bytes, disk_bytes, **settings), blobs or MemoryBlobs(), torch.device("cpu")
    )


def engine(*names, build=tiny.llama, auxiliary=None, blobs=None, held=None):
    """An engine over the named texts. `auxiliary`: None shares the primary, else a decoder of its own."""
    decoder = tiny.decoder(build)
    prompt, held = Prompt(decoder.tokenizer), held or tiers(blobs=blobs)
    cache = ChunkCache(decoder, prompt.prefix, held.tree)
    scorer = AuxiliaryScorer(cache, prompt)
    if auxiliary is not None:
        own = Prompt(auxiliary.tokenizer)
        scorer = AuxiliaryScorer(ChunkCache(auxiliary, own.prefix, held.tree), own)
    made = Engine(FixedLibrary(*names), cache, prompt, scorer, disk_error=lambda: held.disk_error)
    made.tiers = held
    return made


def inspected(made, request, cancel=None):
    """Return what an engine's inspection finds."""
    *_, step = inspect(made, request, cancel or Event())
    return step.found


def last(answers):
    """Run a growing answer to its end."""
    return list(answers)[-1]
