"""The page's texts in another language, for assets/scripts/translate.js and the login page, which has no script."""

import hashlib
import json
import re
from functools import cache
from operator import itemgetter

from starlette.requests import Request
from starlette.responses import Response

from assets import read_translations

LANGUAGES = ("de", "zh")
_ACCEPTED = re.compile(r"([a-z]{2,3})(?:-[a-z\d]+)*(?: *; *q=([01](?:\.\d{0,3})?))?(?: *,|$)", re.I)  # de-DE;q=0.9
_NUMBER = re.compile(r"\d+")


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


def preferred_language(accepted: str) -> str:
    """Return the language of an Accept-Language header in which to answer: 'en', or one of LANGUAGES."""
    found = [(float(weight or 1), tag.lower()) for tag, weight in _ACCEPTED.findall(accepted)]
    known = [each for each in found if each[0] and each[1] in ("en", *LANGUAGES)]
    return max(known, key=itemgetter(0), default=(1.0, "en"))[1]


def translate(text: str, language: str) -> str:
    """Return a text of the interface in a language; a text without a translation stays English."""
    translation = _texts(language).get(_NUMBER.sub("{}", text)) if language in LANGUAGES else None
    return translation.format(*_NUMBER.findall(text)) if translation else text


@cache
def _texts(language: str) -> dict[str, str]:
    return {english: by_language[language] for english, by_language in read_translations().items()}


@cache
def _body(language: str) -> bytes:
    return json.dumps(_texts(language), ensure_ascii=False, separators=(",", ":")).encode()
