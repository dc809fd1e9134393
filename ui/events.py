"""Shared settings of Gradio events: queues, visibility to API clients, and the session key."""

from typing import Any

import gradio as gr

from backend.interface.backend import MAX_CONCURRENT_REQUESTS

MODEL_QUEUE: dict[str, Any] = {"concurrency_id": "model", "concurrency_limit": MAX_CONCURRENT_REQUESTS}
INGEST_QUEUE: dict[str, Any] = {"concurrency_id": "library", "concurrency_limit": 1}  # adding and re-indexing
QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
# Gradio's default trigger mode, "once", drops an event while the browser still handles the listener's previous one.
RUN_MODEL: dict[str, Any] = {**MODEL_QUEUE, **QUIET, "trigger_mode": "multiple"}

Update = dict[Any, Any]  # component -> new value; components that are missing keep theirs


def session_of(request: gr.Request) -> str:
    """Return Gradio's session hash, which is unique per browser tab."""
    return request.session_hash or "no session"
