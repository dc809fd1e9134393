"""What an HTTP caller is told when something is wrong: a status, and a sentence in OpenAI's shape of an error."""

from starlette.responses import JSONResponse

from backend.interface.errors import user_message
from engine.errors import LoadingFailed, ModelNotReady, QuestionTooLong
from store.errors import KVScopeError, StoreFull

RETRY_S = 5  # a model takes some seconds to load; a question, some seconds to be answered

_KINDS: tuple[tuple[type[Exception], int, str | None], ...] = (  # the first that fits
    (QuestionTooLong, 400, "context_length_exceeded"),
    (ModelNotReady, 503, "model_not_ready"),
    (LoadingFailed, 503, "loading_failed"),
    (StoreFull, 503, "store_full"),
    (KVScopeError, 400, None),  # the caller can do something about it
    (Exception, 500, None),
)


class Refused(Exception):
    """A request that is not answered.

    code   a word for programs, where OpenAI has one
    param  the field of the request that is wrong
    retry  the same request may be answered later
    """

    def __init__(
        self, status: int, message: str, *, code: str | None = None, param: str | None = None, retry: bool = False
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.param, self.retry = status, code, param, retry

    def body(self) -> dict[str, dict[str, str | None]]:
        """Return the JSON that OpenAI's clients turn into an exception."""
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        return {"error": {"message": str(self), "type": kind, "param": self.param, "code": self.code}}

    def response(self) -> JSONResponse:
        """Return the answer to the caller."""
        return JSONResponse(self.body(), self.status, {"Retry-After": str(RETRY_S)} if self.retry else None)


def refusal(error: Exception) -> Refused:
    """Return what the caller of a failed question is told; the log keeps the traceback of a bug."""
    if isinstance(error, Refused):
        return error
    status, code = next((status, code) for kind, status, code in _KINDS if isinstance(error, kind))
    return Refused(status, user_message(error), code=code, retry=isinstance(error, ModelNotReady))
