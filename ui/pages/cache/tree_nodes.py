"""The knowledge tree as a bounded list of boxes to draw: passages under their documents, the smallest ones merged.

At most a few hundred boxes are returned however large the cache is, so that browsers draw them quickly.
"""

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass

from backend.interface.cache import CachedPassage, NodeInfo
from store.types import Chunk
from ui.format import count

MAX_PASSAGES = 160
MAX_CHILDREN = 24
ROOT = "all"
_UNKNOWN = "Passage of another library or model"
_SORTS_LAST = "\uffff"
_ROLES = {"auxiliary": "auxiliary model", "alone": "without prefix"}


@dataclass(frozen=True, slots=True)
class Box:
    """One box.

    parent        id of the enclosing box; '' for the root
    depth         0 the root, 1 a document, from 2 passages
    own_bytes     size of its KV in the fastest tier
    total_bytes   including all descendants
    num_passages  including all descendants
    passage       None for the root, documents and merged boxes
    """

    id: str
    parent: str
    depth: int
    label: str
    own_bytes: int
    total_bytes: int
    num_passages: int
    passage: CachedPassage | None = None

    @property
    def is_merged(self) -> bool:
        return self.id.startswith("more:")


def short_name(passage: CachedPassage) -> str:
    """Return a passage's name within its document: 'Passage 12, page 3'."""
    if (chunk := passage.chunk) is None:
        return _UNKNOWN
    page = "" if chunk.page is None else f", page {chunk.page}"
    role = f" ({_ROLES[passage.role]})" if passage.role in _ROLES else ""
    return f"Passage {chunk.index + 1}{page}{role}"


def full_name(passage: CachedPassage) -> str:
    """Return a passage's name with its document's."""
    return _UNKNOWN if passage.chunk is None else f"{passage.chunk.document_name} · {short_name(passage)}"


def age_label(node: NodeInfo) -> str:
    """Return the time of a passage's last use, counted in uses of any passage."""
    if node.age is None:
        return "not used since startup"
    return f"last used {count(node.age, 'use')} ago" if node.age else "most recently used"


def boxes(
    passages: Sequence[CachedPassage], max_passages: int = MAX_PASSAGES, max_children: int = MAX_CHILDREN
) -> list[Box]:
    """Return the root, documents and passages in reading order, parents before children; empty without passages.

    A passage that was computed after others is a child of the one before it. Of each box's children, the largest that
    fit the limits are drawn and the rest are merged into one box, so there are at most 2 x `max_passages` boxes plus
    the root.
    """
    if not passages:
        return []
    return _Layout(passages, max_passages, max_children).boxes()


class _Layout:
    def __init__(self, passages: Sequence[CachedPassage], max_passages: int, max_children: int) -> None:
        self._remaining = max_passages
        self._max_children = max_children
        self._passages = {passage.node.key: passage for passage in passages}
        self._children: dict[str, list[str]] = defaultdict(list)
        self._total_bytes: dict[str, int] = defaultdict(int)
        self._num_passages: dict[str, int] = defaultdict(int)
        self._documents: dict[str, Chunk | None] = {}  # document key -> one of its chunks
        for passage in passages:
            self._children[self._parent(passage)].append(passage.node.key)
        self._children[ROOT] = list(self._documents)
        for passage in reversed(passages):  # children before their parents
            key = passage.node.key
            self._add(key, _own_bytes(passage), 1)
            self._add(self._parent(passage), self._total_bytes[key], self._num_passages[key])
        for document in self._documents:
            self._add(ROOT, self._total_bytes[document], self._num_passages[document])

    def boxes(self) -> list[Box]:
        root = Box(ROOT, "", 0, "All passages", 0, self._total_bytes[ROOT], self._num_passages[ROOT])
        children: dict[str, list[Box]] = {}
        queue = deque([root])
        while queue:
            box = queue.popleft()
            children[box.id] = self._draw_children(box)
            queue.extend(child for child in children[box.id] if not child.is_merged)
        return _depth_first(root, children)

    def _draw_children(self, box: Box) -> list[Box]:
        keys = self._children.get(box.id, [])
        limit = max(0, min(self._max_children, self._remaining))
        drawn = set(sorted(keys, key=lambda key: -self._total_bytes[key])[:limit])
        self._remaining -= len(drawn)
        result = [self._box(key, box) for key in sorted(drawn, key=self._reading_order)]
        if rest := [key for key in keys if key not in drawn]:
            rest_bytes = sum(self._total_bytes[key] for key in rest)
            num_passages = sum(self._num_passages[key] for key in rest)
            label = f"{count(len(rest), 'more document')}" if box.depth == 0 else f"{num_passages} more"
            result.append(Box(f"more:{box.id}", box.id, box.depth + 1, label, rest_bytes, rest_bytes, num_passages))
        return result

    def _box(self, key: str, parent: Box) -> Box:
        passage = self._passages.get(key)
        own_bytes = 0
        if passage is None:
            chunk = self._documents[key]
            label = chunk.document_name if chunk else "Other libraries or models"
        else:
            own_bytes = _own_bytes(passage)
            # A path may continue in another document, so its later passages carry the document's name.
            on_path = parent.passage is not None and passage.chunk is not None
            label = full_name(passage) if on_path else short_name(passage)
        total_bytes = self._total_bytes[key]
        return Box(key, parent.id, parent.depth + 1, label, own_bytes, total_bytes, self._num_passages[key], passage)

    def _parent(self, passage: CachedPassage) -> str:
        if passage.node.parent is not None:
            return passage.node.parent
        document = f"document:{passage.chunk.document_id if passage.chunk else ''}"
        self._documents.setdefault(document, passage.chunk)
        return document

    def _reading_order(self, key: str) -> tuple[str, int, str]:
        passage = self._passages.get(key)
        chunk = passage.chunk if passage else self._documents[key]
        role = passage.role if passage else ""
        return (_SORTS_LAST, 0, role) if chunk is None else (chunk.document_name, chunk.index, role)

    def _add(self, key: str, size_bytes: int, num_passages: int) -> None:
        self._total_bytes[key] += size_bytes
        self._num_passages[key] += num_passages


def _depth_first(root: Box, children: dict[str, list[Box]]) -> list[Box]:
    result: list[Box] = []
    stack = [root]
    while stack:
        result.append(stack.pop())
        stack.extend(reversed(children.get(result[-1].id, [])))
    return result


def _own_bytes(passage: CachedPassage) -> int:
    return passage.node.replicas[0].size_bytes
