"""The knowledge tree as boxes to draw and to list: passages under their documents, the smallest merged into 'n more'.

However large the cache is, at most a few hundred boxes come out, so that a browser draws them at once.
"""

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass

from backend.interface.cache import CachedPassage, NodeInfo
from store.types import Chunk
from ui.format import count

MOST, EACH = 160, 24  # passages in all, and below one parent
ROOT = "all"
UNKNOWN = "Passage of an earlier library or model"
_LAST = "\uffff"  # behind every name
_ROLES = {"auxiliary": "auxiliary model", "alone": "without prefix"}


@dataclass(frozen=True, slots=True)
class Box:
    """One box.

    parent      id of the box it stands in; '' for the root
    depth       0 the root, 1 a document, from 2 passages
    own_bytes   of its KV in the fastest tier
    all_bytes   with all that stands behind it
    passages    in it and behind it
    passage     None for the root, a document, and merged boxes
    """

    id: str
    parent: str
    depth: int
    label: str
    own_bytes: int
    all_bytes: int
    passages: int
    passage: CachedPassage | None = None

    @property
    def merged(self) -> bool:
        return self.id.startswith("more:")


def name_of(passage: CachedPassage) -> str:
    """Return what to call a passage inside its document: 'Passage 12, page 3'."""
    if (chunk := passage.chunk) is None:
        return UNKNOWN
    page = "" if chunk.page is None else f", page {chunk.page}"
    role = f" ({_ROLES[passage.role]})" if passage.role in _ROLES else ""
    return f"Passage {chunk.number + 1}{page}{role}"


def full_name(passage: CachedPassage) -> str:
    """Return a passage's name with its document's."""
    return UNKNOWN if passage.chunk is None else f"{passage.chunk.document_name} · {name_of(passage)}"


def age_of(facts: NodeInfo) -> str:
    """Return when a passage was used last, counted in uses of any passage."""
    if facts.age is None:
        return "not used since the start"
    return f"last used {count(facts.age, 'use')} ago" if facts.age else "the last one used"


def boxes(passages: Sequence[CachedPassage], most: int = MOST, each: int = EACH) -> list[Box]:
    """Return the root, documents and passages, parents before their children and in reading order; none without any.

    A passage behind others stands in the box of the one before it. Below each parent the largest are drawn, as many as
    fit; the others are one box. At most 2 x `most` boxes and the root.
    """
    if not passages:
        return []
    return _Drawing(passages, most, each).boxes()


class _Drawing:
    def __init__(self, passages: Sequence[CachedPassage], most: int, each: int) -> None:
        self._left, self._each = most, each
        self._passages = {passage.facts.key: passage for passage in passages}
        self._below: dict[str, list[str]] = defaultdict(list)
        self._all: dict[str, int] = defaultdict(int)
        self._count: dict[str, int] = defaultdict(int)
        self._documents: dict[str, Chunk | None] = {}
        for passage in passages:
            self._below[self._parent(passage)].append(passage.facts.key)
        self._below[ROOT] = list(self._documents)
        for passage in reversed(passages):  # children first
            key, parent = passage.facts.key, self._parent(passage)
            self._add(key, _own(passage), 1)
            self._add(parent, self._all[key], self._count[key])
        for document in self._documents:
            self._add(ROOT, self._all[document], self._count[document])

    def boxes(self) -> list[Box]:
        root = Box(ROOT, "", 0, "All passages", 0, self._all[ROOT], self._count[ROOT])
        below: dict[str, list[Box]] = {}
        waiting = deque([root])
        while waiting:
            box = waiting.popleft()
            below[box.id] = self._children(box)
            waiting.extend(child for child in below[box.id] if not child.merged)
        return _in_reading_order(root, below)

    def _children(self, box: Box) -> list[Box]:
        keys = self._below.get(box.id, [])
        room = max(0, min(self._each, self._left))
        drawn = set(sorted(keys, key=lambda key: -self._all[key])[:room])
        self._left -= len(drawn)
        found = [self._box(key, box) for key in sorted(drawn, key=self._order)]
        if rest := [key for key in keys if key not in drawn]:
            size, number = sum(self._all[key] for key in rest), sum(self._count[key] for key in rest)
            label = f"{count(len(rest), 'more document')}" if box.depth == 0 else f"{number} more"
            found.append(Box(f"more:{box.id}", box.id, box.depth + 1, label, size, size, number))
        return found

    def _box(self, key: str, parent: Box) -> Box:
        passage = self._passages.get(key)
        if passage is not None:
            label, own = name_of(passage), _own(passage)
            if parent.passage is not None and passage.chunk is not None:
                label = full_name(passage)  # a path goes from document to document
        else:
            chunk, own = self._documents[key], 0
            label = chunk.document_name if chunk else "Earlier libraries or models"
        return Box(key, parent.id, parent.depth + 1, label, own, self._all[key], self._count[key], passage)

    def _parent(self, passage: CachedPassage) -> str:
        if passage.facts.parent is not None:
            return passage.facts.parent
        document = f"document:{passage.chunk.document_id if passage.chunk else ''}"
        self._documents.setdefault(document, passage.chunk)
        return document

    def _order(self, key: str) -> tuple[str, int, str]:
        passage = self._passages.get(key)
        chunk = passage.chunk if passage else self._documents[key]
        role = passage.role if passage else ""
        return (_LAST, 0, role) if chunk is None else (chunk.document_name, chunk.number, role)

    def _add(self, key: str, size_bytes: int, number: int) -> None:
        self._all[key] += size_bytes
        self._count[key] += number


def _in_reading_order(root: Box, below: dict[str, list[Box]]) -> list[Box]:
    found, waiting = [], [root]
    while waiting:
        found.append(waiting.pop())
        waiting.extend(reversed(below.get(found[-1].id, [])))
    return found


def _own(passage: CachedPassage) -> int:
    return passage.facts.copies[0].size_bytes
