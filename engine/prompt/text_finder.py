"""Retrieve from a list of texts in memory, without the document library."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from engine.text import split_words
from store.types import Chunk, Document, Hit


class TextFinder:
    """A `Finder` over texts: each is one passage, ranked by the idf-weighted words that it shares with the question."""

    def __init__(self, texts: Sequence[str] = ()) -> None:
        self._chunks = [
            Chunk(f"text-{index}-0", f"text-{index}", f"Text {index + 1}", 0, None, 0, len(text), text)
            for index, text in enumerate(texts)
        ]
        self._words = [set(split_words(text)) for text in texts]
        self._document_frequency = Counter(word for words in self._words for word in words)

    def retrieve_stages(self, question: str, top_k: int, documents: Sequence[str] = ()) -> Iterator[list[Hit]]:
        question_words = set(split_words(question))
        hits = []
        for chunk, words in zip(self._chunks, self._words, strict=True):
            if not documents or chunk.document_id in documents:
                shared = question_words & words
                score = sum(math.log(1 + len(self._chunks) / self._document_frequency[word]) for word in shared)
                hits.append(Hit(chunk, score, similarity=None, matched_words=bool(shared)))
        yield sorted(hits, key=lambda hit: -hit.score)[:top_k]

    def documents(self) -> list[Document]:
        return [
            Document(chunk.document_id, chunk.document_name, len(chunk.text.encode()), None, 1, 0.0)
            for chunk in self._chunks
        ]

    def chunks(self, document_id: str) -> list[Chunk]:
        return [chunk for chunk in self._chunks if chunk.document_id == document_id]

    def chunks_by_id(self, ids: Sequence[str]) -> dict[str, Chunk]:
        return {chunk.id: chunk for chunk in self._chunks if chunk.id in ids}
