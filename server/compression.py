"""Compresses the page, which has the description of every component, and its translations.

Gradio's modules are compressed already.
"""

from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from server.translations import LANGUAGES

PATHS = {"/", "/theme.css", *(f"/translations/{language}.json" for language in LANGUAGES)}
LEVEL = 5  # of 9; higher ones take longer than they save


class CompressPage:
    """Middleware in front of all others: they read the page as it is."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._compressed = GZipMiddleware(app, compresslevel=LEVEL)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._compressed if scope["type"] == "http" and scope["path"] in PATHS else self._app
        await app(scope, receive, send)
