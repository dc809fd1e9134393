"""Test doubles of the store, and an engine on a tiny model."""

import re
from itertools import accumulate
from threading import Event

import torch

from engine.analysis.inspection_runner import inspect
from engine.cache.hierarchy import CacheHierarchy, CacheHierarchyConfig
from engine.engine import Engine
from engine.kv.chunk_cache import ChunkCache
from engine.prompt.template import PromptTemplate
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
    """A BlobStore in a dict; `full` makes `put` fail."""

    def __init__(self):
        self.tensors = {}
        self.notes_by_key = {}
        self.full = False

    def put(self, key, tensors, note=""):
        if self.full:
            raise StoreFull("No space left on device.")
        self.tensors[key] = {name: tensor.clone() for name, tensor in tensors.items()}
        self.notes_by_key[key] = note

    def get(self, key):
        return self.tensors[key]

    def delete(self, key):
        self.tensors.pop(key, None)
        self.notes_by_key.pop(key, None)

    def notes(self):
        return dict(self.notes_by_key)

    def annotate(self, notes):
        self.notes_by_key.update({key: note for key, note in notes.items() if key in self.tensors})

    def __contains__(self, key):
        return key in self.tensors

    @property
    def size_bytes(self):
        return sum(t.nbytes for blob in self.tensors.values() for t in blob.values())


class FixedFinder:
    """A Finder that returns the same chunks, in the same order, for every question."""

    def __init__(self, *names):
        self.hits = [make_hit(name, TEXTS.get(name, name)) for name in names]

    def retrieve_stages(self, question, top, documents=()):
        yield self.hits[:top]

    def documents(self):
        return [Document(hit.chunk.document_id, hit.chunk.document_name, 1, None, 1, 0.0) for hit in self.hits]

    def chunks(self, document_id):
        return [hit.chunk for hit in self.hits if hit.chunk.document_id == document_id]

    def chunks_by_id(self, ids):
        return {hit.chunk.id: hit.chunk for hit in self.hits if hit.chunk.id in ids}


class KeywordFinder:
    """A Finder over documents, given as name=[text, ...], that ranks chunks by the number of words in the question.

    questions  what was searched for
    """

    def __init__(self, **documents):
        self.chunks_by_document = {
            name: [
                Chunk(f"{name}-{at}", name, f"{name}.txt", at, None, start, start + len(text), text)
                for at, (text, start) in enumerate(zip(texts, accumulate(map(len, texts), initial=0), strict=False))
            ]
            for name, texts in documents.items()
        }
        self.questions = []

    def retrieve_stages(self, question, top, documents=()):
        self.questions.append(question)
        words = set(re.findall(r"\w+", question.lower()))
        scored = [
            (len(words.intersection(re.findall(r"\w+", chunk.text.lower()))), chunk)
            for name, chunks in self.chunks_by_document.items()
            for chunk in chunks
            if not documents or name in documents
        ]
        ranked = sorted((pair for pair in scored if pair[0]), key=lambda pair: -pair[0])
        yield [Hit(chunk, score, score / 100, True) for score, chunk in ranked][:top]

    def documents(self):
        return [
            Document(name, f"{name}.txt", 1, None, len(chunks), 0.0) for name, chunks in self.chunks_by_document.items()
        ]

    def chunks(self, document_id):
        return self.chunks_by_document.get(document_id, [])

    def chunks_by_id(self, ids):
        return {chunk.id: chunk for chunks in self.chunks_by_document.values() for chunk in chunks if chunk.id in ids}


def make_hit(name, text):
    return Hit(Chunk(f"{name}-0", name, f"{name}.txt", 0, None, 0, len(text), text), 0.03, 0.5, True)


def make_hierarchy(host_bytes=2**30, disk_bytes=2**30, blobs=None, **settings):
    """A cache hierarchy over memory, and a disk that is a dict."""
    return CacheHierarchy(
        CacheHierarchyConfig(host_bytes, disk_bytes, **settings), blobs or MemoryBlobs(), torch.device("cpu")
    )


def make_engine(*names, build=tiny.llama, auxiliary=None, blobs=None, hierarchy=None, selector=None, grounding=None):
    """An engine over the named texts. `auxiliary` is a decoder of its own; by default the primary is used."""
    decoder = tiny.decoder(build)
    template, hierarchy = PromptTemplate(decoder.tokenizer), hierarchy or make_hierarchy(blobs=blobs)
    cache = ChunkCache(decoder, template.prefix_ids, hierarchy.tree)
    scorer = AuxiliaryScorer(cache, template, selector)
    if auxiliary is not None:
        own = PromptTemplate(auxiliary.tokenizer)
        scorer = AuxiliaryScorer(ChunkCache(auxiliary, own.prefix_ids, hierarchy.tree), own, selector)
    finder, disk_error = FixedFinder(*names), lambda: hierarchy.disk_error
    engine = Engine(finder, cache, template, scorer, grounding=grounding, disk_error=disk_error)
    engine.tiers = hierarchy
    return engine


def run_inspection(engine, request, cancel=None):
    """Return the result of inspecting a request."""
    *_, step = inspect(engine, request, cancel or Event())
    return step.inspection


def last(answers):
    """Exhaust a stream of answers and return the last one."""
    return list(answers)[-1]
