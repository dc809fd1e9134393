"""The knowledge tree (RAGCache, arXiv:2404.12457) as an icicle plot; a box was computed after the one to its left."""

from collections.abc import Sequence

import plotly.graph_objects as go

from ui.components.tiers import TIERS
from ui.figures.labels import plotly_label
from ui.format import count, short, size
from ui.pages.cache.tree_nodes import Box, age_label, full_name

_DOCUMENT, _MERGED, _PINNED = "#5f646b", "#7a7f86", "#e0a33a"
_HEIGHT_PX = 460


def tree_figure(boxes: Sequence[Box]) -> go.Figure:
    """Return the boxes as an icicle plot: width by depth, height by bytes, colour by fastest tier.

    Each box has its passage's key as custom data ('' if it has none), by which clicks are resolved.
    """
    figure = go.Figure(
        go.Icicle(
            ids=[box.id for box in boxes],
            parents=[box.parent for box in boxes],
            labels=[plotly_label(_label(box), 20) for box in boxes],
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
                    "color": [_PINNED if _is_pinned(box) else "rgba(255,255,255,0.35)" for box in boxes],
                    "width": [3 if _is_pinned(box) else 0.5 for box in boxes],
                },
            },
        )
    )
    figure.update_layout(
        height=_HEIGHT_PX,
        margin={"l": 0, "r": 0, "t": 0, "b": 0},
        paper_bgcolor="rgba(0,0,0,0)",
        font={"family": "system-ui, sans-serif", "size": 12},
        uniformtext={"minsize": 10, "mode": "hide"},
        hoverlabel={"align": "left", "font": {"size": 12.5}},
    )
    return figure


def _label(box: Box) -> str:
    """Return a label that fits into the box: on a path, the document's name is shortened, not the passage's number."""
    if box.depth > 2 and box.passage is not None and (chunk := box.passage.chunk) is not None:
        return f"{short(chunk.document_name, 12)} \u00b7 {chunk.index + 1}"
    return box.label


def _colour(box: Box) -> str:
    if box.passage is None:
        return _MERGED if box.is_merged else _DOCUMENT
    return TIERS[box.passage.node.replicas[0].tier].colour


def _is_pinned(box: Box) -> bool:
    return box.passage is not None and box.passage.node.pinned


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
        f"cost: {node.ms_per_token:,.2f} ms per token, {count(node.tokens, 'token')}",
        f"age: {age_label(node)}",
    ]
    return "<br>".join(lines)
