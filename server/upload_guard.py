"""Accepts files in requests to Gradio only if they were uploaded.

For every component, Gradio downloads a file whose path is a URL, and `/gradio_api/file=URL` returns what it downloads.
A middleware sees the requests of all endpoints before they are queued, so the client gets an error status; an error of
Gradio's own functions would come too late for that, and there are several of them, with names that may change.
"""

import json
import os
import re
from typing import Any

from fastapi.concurrency import run_in_threadpool
from gradio.utils import get_upload_folder
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.bodies import MAX_EVENT_BYTES, is_form, read_body
from server.errors import ApiError

_FORM_PATHS = ("/upload", "/component_server")  # Gradio limits the size of each of their files
_UNUSED = re.compile("/(process_recording|vibe-[^/]*)/?$")  # the first hands the body to ffmpeg
_MESSAGE = "Only uploaded files are accepted, no URLs and no other paths: upload the file, then send the path you get."
_REFUSAL = {  # in the format whose message gradio_client shows
    "detail": [{"__type__": "validate", "is_valid": False, "parameter_name": "file", "message": _MESSAGE}]
}


class _ForeignFile(Exception):
    """A body contains a file that was not uploaded."""


class UploadGuard:
    """Middleware in front of Gradio's API."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or "/gradio_api/" not in scope["path"]:
            await self._app(scope, receive, send)
            return
        if _UNUSED.search(scope["path"]):
            await JSONResponse({"detail": "KVScope does not use this function of Gradio."}, 404)(scope, receive, send)
            return
        has_foreign_file = "://" in scope["path"]
        is_upload = is_form(scope) and scope["path"].rstrip("/").endswith(_FORM_PATHS)
        if scope["method"] == "POST" and not is_upload and not has_foreign_file:
            try:
                body = await read_body(Request(scope, receive), MAX_EVENT_BYTES)
            except ClientDisconnect:
                return
            except ApiError as error:
                await error.response(scope["path"])(scope, receive, send)
                return
            receive = _replay(body, receive)
            has_foreign_file = bool(body) and await run_in_threadpool(_has_foreign_file, body)
        if has_foreign_file:
            await JSONResponse(_REFUSAL, 422)(scope, receive, send)
        else:
            await self._app(scope, receive, send)


def _has_foreign_file(body: bytes) -> bool:
    """Return whether a JSON body contains an object whose `path` is not an uploaded file."""

    def check(value: dict[str, Any]) -> None:
        path = value.get("path")
        if isinstance(path, str) and not _is_uploaded(path):
            raise _ForeignFile

    try:
        json.loads(body, object_hook=check)  # called for the innermost objects first
    except _ForeignFile:
        return True
    except (ValueError, RecursionError):  # Gradio cannot read it either
        pass
    return False


def _is_uploaded(path: str) -> bool:
    """Return whether a path is in the folder for uploads. Does not open it: on Windows, a path can name a host."""
    folder = os.path.join(os.path.abspath(get_upload_folder()), "")
    return "://" not in path and os.path.abspath(path).startswith(folder)


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a function that receives the body again, and then what follows."""
    messages: list[Message] = [{"type": "http.request", "body": body}]

    async def receive_again() -> Message:
        return messages.pop() if messages else await receive()

    return receive_again
