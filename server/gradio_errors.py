"""Errors of Gradio's routes before an event runs; `ui.blocks` has those of events."""

import logging

from fastapi.exceptions import RequestValidationError
from gradio.route_utils import FnIndexInferError
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from backend.interface.errors import user_message
from server.errors import to_api_error

_UNKNOWN = (FnIndexInferError, LookupError, TypeError)  # what routes raise for names, numbers and arguments
_UNKNOWN_MESSAGE = (
    "There is no such endpoint or event, or it takes other arguments. Reload the page, or see /gradio_api/info."
)
log = logging.getLogger("kvscope")


class GradioErrors:
    """Middleware that answers with a sentence where one of Gradio's routes raises an error."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_answered = False

        async def watch(message: Message) -> None:
            nonlocal is_answered
            is_answered = True
            await send(message)

        try:
            await self._app(scope, receive, watch)
        except Exception as error:
            if is_answered or not scope["path"].startswith("/gradio_api/"):
                raise
            await _response(error, scope["path"])(scope, receive, send)


def _response(error: Exception, path: str) -> Response:
    if not isinstance(error, _UNKNOWN):
        return JSONResponse({"detail": user_message(error)}, 500)
    log.warning("%s: %r", path, error)  # it may be a bug of Gradio
    return JSONResponse({"detail": _UNKNOWN_MESSAGE}, 400)


async def invalid_request(request: HttpRequest, error: Exception) -> Response:
    """Handle a RequestValidationError of one of Gradio's routes."""
    assert isinstance(error, RequestValidationError)
    return JSONResponse({"detail": to_api_error(error).message}, 422)
