"""Headers that restrict what a browser does with a response.

Scripts run only if this server sent them as files or in its page: inline ones are allowed by their hash, so that text
which became markup by mistake cannot run. Gradio needs eval, for its templates and for `js` of events, and inline
styles. The starting page uses this module too, so nothing slow is imported.
"""

from __future__ import annotations

import base64
import hashlib
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-eval'{hashes}; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; object-src 'none'; base-uri 'self'; "
    "form-action 'self'; frame-ancestors 'none'"
)
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # with no-referrer, forms would be sent with the Origin 'null'
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
_INLINE_SCRIPT = re.compile(rb"<script[^>]*>(.*?)</script>", re.DOTALL)


class SecurityHeaders:
    """Middleware in front of all that answer. `script` is an inline script that the page adds by itself."""

    def __init__(self, app: ASGIApp, script: str) -> None:
        self._app = app
        self._script = script.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        pages: list[Message] = []  # the start of the page, held back until its text is known

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                if scope["path"] == "/":
                    pages.append(message)
                    return
                message = _with_headers(message)
            elif pages:
                scripts = [*_INLINE_SCRIPT.findall(message.get("body", b"")), self._script]
                await send(_with_headers(pages.pop(), *filter(None, scripts)))
            await send(message)

        await self._app(scope, receive, send_with_headers)


def _with_headers(start: Message, *inline_scripts: bytes) -> Message:
    added = {**HEADERS, "Content-Security-Policy": policy(*inline_scripts)}
    return {**start, "headers": [*start["headers"], *((name.lower().encode(), added[name].encode()) for name in added)]}


def policy(*inline_scripts: bytes) -> str:
    """Return the value of Content-Security-Policy for a page with these inline scripts."""
    digests = (base64.b64encode(hashlib.sha256(script).digest()).decode() for script in inline_scripts)
    return _POLICY.format(hashes="".join(f" 'sha256-{digest}'" for digest in digests))
