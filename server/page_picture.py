"""`/page.png`: a page of a PDF with a quote marked, for the panel that a citation opens."""

from collections.abc import Callable
from threading import BoundedSemaphore

from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from backend.interface.backend import Backend
from server.errors import RETRY_S, ApiError, to_api_error
from store.errors import NoSuchDocument

MAX_QUOTE = 8_000  # characters
MAX_REQUESTS = 8  # at a time, most of which wait: each takes up a thread of the server, and has the file in memory
_MISSING = "This page cannot be shown."


def page_route(backend: Backend) -> Callable[[HttpRequest], Response]:
    """Return the handler. Query: `chunk`, a passage's id; `page`, from 1; `quote`, a part of the passage's text."""

    places = BoundedSemaphore(MAX_REQUESTS)

    def show(request: HttpRequest) -> Response:
        chunk, page, quote = (request.query_params.get(name, "") for name in ("chunk", "page", "quote"))
        if request.headers.get("sec-fetch-site") == "cross-site":
            return ApiError(403, "Pages are shown to KVScope's own page only.").response()
        if not page.isdecimal() or len(page) > 6:
            return ApiError(400, "`page` must be the number of a page.", param="page").response()
        if not places.acquire(blocking=False):
            return ApiError(429, "Too many pages are being drawn. Try again later.", retry_s=RETRY_S).response()
        try:
            picture = backend.page_picture(chunk, int(page), quote[:MAX_QUOTE])
        except NoSuchDocument as error:
            return ApiError(404, str(error)).response()
        except Exception as error:  # noqa: BLE001  sent to the client
            return to_api_error(error).response()
        finally:
            places.release()
        if picture is None:
            return ApiError(404, _MISSING).response()
        return Response(picture, media_type="image/png", headers={"Cache-Control": "no-store"})

    return show
