"""The knowledge tree (RAGCache, arXiv:2404.12457) as boxes of a bounded number, and these as an icicle plot.

At most a few hundred boxes are drawn however large the cache is, so that browsers draw them quickly.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import plotly.graph_objects as go

from backend.interface.cache import CachedPassage, NodeInfo
from ui.components.tiers import TIERS
from ui.figures.base import plotly_label
from ui.format import cost_per_token, count, short, size

ROOT = "all"
_MAX_PASSAGES = 160
_MAX_CHILDREN = 24
UNKNOWN_PASSAGE = "Passage of another library or model"
_SORTS_LAST = "\uffff"
_ROLES = {"auxiliary": "auxiliary model", "alone": "without prefix"}
_DOCUMENT, _MERGED, _PINNED = "#5f646b", "#7a7f86", "#e0a33a"


@dataclass(eq=False)
class Box:
    """One box of the plot: the root, a document, a passage, or several merged ones."""

    id: str
    parent: str  # id of the enclosing box; '' for the root
    depth: int  # 0 the root, 1 a document, from 2 passages
    label: str
    own_bytes: int = 0  # size of its KV in the fastest tier
    total_bytes: int = 0  # including all descendants
    num_passages: int = 0  # including all descendants
    passage: CachedPassage | None = None  # None for the root, documents and merged boxes
    order: tuple[str, int, str] = ("", 0, "")  # among its siblings
    children: list["Box"] = field(default_factory=list)

    @property
    def is_merged(self) -> bool:
        return self.id.startswith("more:")

    def walk(self) -> Iterator["Box"]:
        """Yield the box and all its descendants, parents before children."""
        yield self
        for child in self.children:
            yield from child.walk()


def short_name(passage: CachedPassage) -> str:
    """Return a passage's name within its document: 'Passage 12, page 3'."""
    if (chunk := passage.chunk) is None:
        return UNKNOWN_PASSAGE
    page = "" if chunk.page is None else f", page {chunk.page}"
    role = f" ({_ROLES[passage.role]})" if passage.role in _ROLES else ""
    return f"Passage {chunk.index + 1}{page}{role}"


def full_name(passage: CachedPassage) -> str:
    """Return a passage's name with its document's."""
    return UNKNOWN_PASSAGE if passage.chunk is None else f"{passage.chunk.document_name} · {short_name(passage)}"


def age_label(node: NodeInfo) -> str:
    """Return the time of a passage's last use, counted in uses of any passage."""
    if node.age is None:
        return "not used since startup"
    return f"last used {count(node.age, 'use')} ago" if node.age else "most recently used"


def boxes(passages: Sequence[CachedPassage]) -> list[Box]:
    """Return the root, documents and passages in reading order, parents before children; empty without passages.

    A passage that was computed after others is a child of the one before it. Of each box's children, the largest that
    fit the limits are drawn and the rest are merged into one box, so there are at most 2 x 160 boxes plus the root.
    """
    if not passages:
        return []
    root = _whole_tree(passages)
    remaining = _MAX_PASSAGES
    queue = deque([root])
    while queue:
        box = queue.popleft()
        by_size = sorted(box.children, key=lambda child: child.total_bytes, reverse=True)
        limit = min(_MAX_CHILDREN, remaining)
        box.children = sorted(by_size[:limit], key=lambda child: child.order)
        remaining -= len(box.children)
        queue.extend(box.children)
        if rest := by_size[limit:]:
            num_bytes = sum(child.total_bytes for child in rest)
            num_passages = sum(child.num_passages for child in rest)
            label = f"{num_passages} more" if box.depth else count(len(rest), "more document")
            box.children.append(Box(f"more:{box.id}", box.id, box.depth + 1, label, num_bytes, num_bytes, num_passages))
    return list(root.walk())


def tree_figure(boxes: Sequence[Box]) -> go.Figure:
    """Return the boxes as an icicle plot: width by depth, height by bytes, colour by fastest tier.

    A box was computed after the one to its left. Each has its passage's key as custom data ('' if it has none), by
    which clicks are resolved.
    """
    pinned = [box.passage is not None and box.passage.node.pinned for box in boxes]
    figure = go.Figure(
        go.Icicle(
            ids=[box.id for box in boxes],
            parents=[box.parent for box in boxes],
            labels=[plotly_label(_short_label(box), 20) for box in boxes],
            values=[box.own_bytes for box in boxes],
            customdata=[box.passage.node.key if box.passage else "" for box in boxes],
            hovertext=[_hover_text(box) for box in boxes],
            hoverinfo="text",
            textinfo="label",
            leaf={"opacity": 1},
            branchvalues="remainder",
            sort=False,
            tiling={"orientation": "h", "pad": 1},
            pathbar={"visible": False},  # its transitions draw broken paths; the leftmost box leads back as well
            textfont={"color": "#ffffff", "size": 12},
            marker={
                "colors": [_colour(box) for box in boxes],
                "line": {
                    "color": [_PINNED if is_pinned else "rgba(255,255,255,0.35)" for is_pinned in pinned],
                    "width": [3 if is_pinned else 0.5 for is_pinned in pinned],
                },
            },
        )
    )
    figure.update_layout(
        height=460,
        margin={"l": 0, "r": 0, "t": 0, "b": 0},
        paper_bgcolor="rgba(0,0,0,0)",
        font={"family": "system-ui, sans-serif", "size": 12},
        uniformtext={"minsize": 10, "mode": "hide"},
        hoverlabel={"align": "left", "font": {"size": 12.5}},
    )
    return figure


def _whole_tree(passages: Sequence[CachedPassage]) -> Box:
    by_id = {ROOT: Box(ROOT, "", 0, "All passages")}
    for passage in passages:  # parents precede their children
        chunk = passage.chunk
        order = (_SORTS_LAST, 0, passage.role) if chunk is None else (chunk.document_name, chunk.index, passage.role)
        parent = passage.node.parent
        if parent is None:
            parent = f"document:{chunk.document_id if chunk else ''}"
            document_name = chunk.document_name if chunk else "Other libraries or models"
            by_id.setdefault(parent, Box(parent, ROOT, 1, document_name, order=order))
        # A path may continue in another document, so its later passages carry the document's name.
        label = full_name(passage) if by_id[parent].passage else short_name(passage)
        depth = by_id[parent].depth + 1
        own_bytes = passage.node.replicas[0].size_bytes
        key = passage.node.key
        by_id[key] = Box(key, parent, depth, label, own_bytes, passage=passage, order=order)
    for box in by_id.values():
        if box.parent:
            by_id[box.parent].children.append(box)
    for box in reversed(by_id.values()):  # children precede their parents
        box.total_bytes = box.own_bytes + sum(child.total_bytes for child in box.children)
        box.num_passages = (box.passage is not None) + sum(child.num_passages for child in box.children)
    return by_id[ROOT]


def _short_label(box: Box) -> str:
    """Return a label that fits into the box: on a path, the document's name is shortened, not the passage's number."""
    if box.depth > 2 and box.passage is not None and (chunk := box.passage.chunk) is not None:
        return f"{short(chunk.document_name, 12)} \u00b7 {chunk.index + 1}"
    return box.label


def _colour(box: Box) -> str:
    if box.passage is None:
        return _MERGED if box.is_merged else _DOCUMENT
    return TIERS[box.passage.node.replicas[0].tier].colour


def _hover_text(box: Box) -> str:
    if (passage := box.passage) is None:
        text = f"<b>{plotly_label(box.label, 60)}</b><br>{count(box.num_passages, 'passage')}, {size(box.total_bytes)}"
        return f"{text}<br>the smallest passages here, merged into one box" if box.is_merged else text
    node = passage.node
    lines = [
        f"<b>{plotly_label(full_name(passage), 70)}</b>" + (" · pinned" if node.pinned else ""),
        *(
            f"{TIERS[replica.tier].noun}: {size(replica.size_bytes)}, priority {replica.priority:,.2f}"
            for replica in node.replicas
        ),
        f"frequency: used {count(node.frequency, 'time')}",
        f"cost: {cost_per_token(node.ms_per_token)}, {count(node.tokens, 'token')}",
        f"age: {age_label(node)}",
    ]
    return "<br>".join(lines)
