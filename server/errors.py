"""Errors as HTTP responses in OpenAI's format."""

from dataclasses import dataclass
from typing import Any

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from backend.interface.errors import user_message
from engine.errors import AnswerServerFailed, LoadingFailed, ModelNotReady, QuestionTooLong
from store.errors import ExportFailed, KVScopeError, LibraryUnavailable, StoreFull
from store.feedback import RatingsUnreadable

RETRY_S = 5  # of a refusal whose end is not known


class TooManyQuestions(KVScopeError):
    """A client runs as many questions as it may."""

    hint = "Wait until one has finished, or stop one."


_STATUS: tuple[tuple[type[Exception], int, str | None], ...] = (  # the first match applies
    (QuestionTooLong, 400, "context_length_exceeded"),
    (TooManyQuestions, 429, "rate_limit_exceeded"),
    (ModelNotReady, 503, "model_not_ready"),
    (LoadingFailed, 503, "loading_failed"),
    (StoreFull, 503, "store_full"),
    (LibraryUnavailable, 503, "library_unavailable"),
    (AnswerServerFailed, 502, "answer_server_failed"),
    (ExportFailed, 500, "export_failed"),
    (RatingsUnreadable, 500, "ratings_unreadable"),
    (KVScopeError, 400, None),
    (Exception, 500, None),
)


class ErrorDetails(BaseModel):
    """What went wrong. `param`: the request field; `code`: OpenAI's error code, if there is one."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorResponse(BaseModel):
    """The body of an error response, which OpenAI's clients turn into an exception."""

    error: ErrorDetails


@dataclass(eq=False)
class ApiError(Exception):
    """A request that is refused. With `retry_s`, the same request may succeed after so many seconds."""

    status: int
    message: str
    code: str | None = None
    param: str | None = None
    retry_s: int = 0

    def body(self) -> dict[str, Any]:
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        details = ErrorDetails(message=self.message, type=kind, param=self.param, code=self.code)
        return ErrorResponse(error=details).model_dump()

    def headers(self) -> dict[str, str]:
        headers = {"Retry-After": str(self.retry_s)} if self.retry_s else {}
        return headers | ({"WWW-Authenticate": "Bearer"} if self.status == 401 else {})

    def response(self, path: str = "") -> JSONResponse:
        """Return the response to a request with this path; Gradio's page shows the `detail` of its requests."""
        detail = {"detail": self.message} if path.startswith("/gradio_api/") else {}
        return JSONResponse(self.body() | detail, self.status, self.headers())


def to_api_error(error: Exception) -> ApiError:
    """Return the error to send to the client; bugs are logged with their traceback."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, RequestValidationError):
        return _invalid_field(error)
    if isinstance(error, HTTPException):
        return ApiError(error.status_code, f"{error.detail}.")
    status, code = next((status, code) for kind, status, code in _STATUS if isinstance(error, kind))
    retry_s = RETRY_S if isinstance(error, ModelNotReady | LibraryUnavailable | TooManyQuestions) else 0
    return ApiError(status, user_message(error), code=code, retry_s=retry_s)


def _invalid_field(error: RequestValidationError) -> ApiError:
    """Return an error that names the first invalid field of the body."""
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return ApiError(400, f"The body is not valid JSON: {first['ctx']['error']}.")
    field = ".".join(map(str, first["loc"][1:]))  # the first part is "body"
    return ApiError(400, f"{field or 'The body'}: {first['msg']}.", param=field or None)
