"""Bodies of requests: forms are told from others, and others are read into memory up to a limit."""

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import Scope

from server.errors import ApiError

MAX_EVENT_BYTES = (
    16 * 2**20
)  # of an event of the page, whose chats are up to 5 million characters, and of an MCP message


def is_form(scope: Scope) -> bool:
    """Return whether a request has the content type of uploads."""
    return Headers(scope=scope).get("content-type", "").lower().startswith("multipart/form-data")


def size_label(num_bytes: int) -> str:
    """Return '4 KiB' or '16 MiB'."""
    return f"{num_bytes >> 20} MiB" if num_bytes >= 2**20 else f"{num_bytes >> 10} KiB"


async def read_body(request: Request, max_bytes: int) -> bytes:
    """Return the body of a request. Raises ApiError (413) if it is larger, and ClientDisconnect.

    The size is counted while reading: a client may leave out the Content-Length.
    """
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > max_bytes:
            raise ApiError(413, f"The request is larger than {size_label(max_bytes)}.")
    return bytes(body)
