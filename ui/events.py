"""What the page's events share: whose click it was, which queue they wait in, and that programs do not see them."""

from typing import Any

import gradio as gr

MODEL = "model"  # the queue of questions
LIBRARY = "library"  # the queue of files to add
# What a click has begun is done; "once" would leave it out while the browser still tidies up after the one before.
ALWAYS: dict[str, Any] = {"trigger_mode": "multiple"}
QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}

Update = dict[Any, Any]  # component -> its new value; components left out stay as they are


def session_of(request: gr.Request) -> str:
    """Return the tab's own key; Gradio gives each open page another one."""
    return request.session_hash or "no session"
