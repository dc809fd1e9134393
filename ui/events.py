"""Shared settings of Gradio events: queues, visibility to API clients, and the session key."""

from typing import Any

import gradio as gr

from backend.interface.backend import MAX_CONCURRENT_REQUESTS

MODEL_QUEUE = "model"  # concurrency id of events that run the model
INGEST_QUEUE = "library"  # concurrency id of events that add or re-index documents
# Gradio's default, "once", drops an event while the browser still handles the previous one of the same listener.
ALLOW_MULTIPLE: dict[str, Any] = {"trigger_mode": "multiple"}
QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
RUN_MODEL: dict[str, Any] = {  # events of pages that run the model
    "concurrency_id": MODEL_QUEUE,
    "concurrency_limit": MAX_CONCURRENT_REQUESTS,
    **ALLOW_MULTIPLE,
    **QUIET,
}

Update = dict[Any, Any]  # component -> new value; components that are missing keep theirs


def session_of(request: gr.Request) -> str:
    """Return Gradio's session hash, which is unique per browser tab."""
    return request.session_hash or "no session"
