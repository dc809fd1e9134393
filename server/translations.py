"""The page's texts in another language, for assets/scripts/translate.js."""

import hashlib
import json
from functools import cache

from starlette.requests import Request
from starlette.responses import Response

from assets import read_translations

LANGUAGES = ("de", "zh")


def translations(request: Request) -> Response:
    """Answer with the translations into a language, {English: translation}; browsers keep them until they change."""
    language = request.path_params["language"]
    if language not in LANGUAGES:
        return Response(status_code=404)
    body = _body(language)
    headers = {"Cache-Control": "no-cache", "ETag": f'W/"{hashlib.sha256(body).hexdigest()[:32]}"'}
    if headers["ETag"] in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(body, media_type="application/json", headers=headers)


@cache
def _body(language: str) -> bytes:
    texts = {english: by_language[language] for english, by_language in read_translations().items()}
    return json.dumps(texts, ensure_ascii=False, separators=(",", ":")).encode()
