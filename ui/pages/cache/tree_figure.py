"""The knowledge tree as an icicle: what stands to the right of a box was computed behind it."""

from collections.abc import Sequence

import plotly.graph_objects as go

from ui.figures.labels import label
from ui.format import count, short, size
from ui.pages.cache.tree_nodes import Box, age_of, full_name

# Dark enough for white letters, on a white page and on a black one.
HUES = {"device": "#6d5bc4", "host": "#1f7d71", "disk": "#4a6fa8"}
_GROUP, _MORE, _PINNED = "#5f646b", "#7a7f86", "#e0a33a"
_PLACES = {"device": "GPU memory", "host": "memory", "disk": "disk"}
_HEIGHT_PX = 460


def tree(boxes: Sequence[Box]) -> go.Figure:
    """Return the boxes as an icicle: width by depth, height by bytes, colour by the fastest tier a passage lies in.

    Each box carries its passage's key as custom data ('' where there is none), so that a click can say what it hit.
    """
    figure = go.Figure(
        go.Icicle(
            ids=[box.id for box in boxes],
            parents=[box.parent for box in boxes],
            labels=[label(_short(box), 20) for box in boxes],
            values=[box.own_bytes for box in boxes],
            customdata=[box.passage.facts.key if box.passage else "" for box in boxes],
            hovertext=[_hover(box) for box in boxes],
            hoverinfo="text",
            textinfo="label",
            leaf={"opacity": 1},
            branchvalues="remainder",
            sort=False,
            tiling={"orientation": "h", "pad": 1},
            pathbar={"visible": False},  # its transitions draw broken paths; the leftmost box leads back as well
            textfont={"color": "#ffffff", "size": 12},
            marker={
                "colors": [_hue(box) for box in boxes],
                "line": {
                    "color": [_PINNED if _pinned(box) else "rgba(255,255,255,0.35)" for box in boxes],
                    "width": [3 if _pinned(box) else 0.5 for box in boxes],
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


def _short(box: Box) -> str:
    """Return what fits into a box: behind other passages the document's name is cut, the passage's number is not."""
    if box.depth > 2 and box.passage is not None and (chunk := box.passage.chunk) is not None:
        return f"{short(chunk.document_name, 12)} \u00b7 {chunk.number + 1}"
    return box.label


def _hue(box: Box) -> str:
    if box.passage is None:
        return _MORE if box.merged else _GROUP
    return HUES.get(box.passage.facts.copies[0].tier, _GROUP)


def _pinned(box: Box) -> bool:
    return box.passage is not None and box.passage.facts.pinned


def _hover(box: Box) -> str:
    if (passage := box.passage) is None:
        said = f"<b>{label(box.label, 60)}</b><br>{count(box.passages, 'passage')}, {size(box.all_bytes)}"
        return f"{said}<br>the smallest ones here, drawn as one box" if box.merged else said
    facts = passage.facts
    lines = [
        f"<b>{label(full_name(passage), 70)}</b>" + (" · pinned" if facts.pinned else ""),
        *(f"{_PLACES[c.tier]}: {size(c.size_bytes)}, priority {c.priority:,.2f}" for c in facts.copies),
        f"frequency: used {count(facts.frequency, 'time')}",
        f"cost: {facts.ms_per_token:,.2f} ms a token, {count(facts.tokens, 'token')}",
        f"age: {age_of(facts)}",
    ]
    return "<br>".join(lines)
