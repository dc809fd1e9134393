"""The route of the page's texts in other languages."""

import httpx
import pytest

from assets import read_translations


@pytest.mark.parametrize("language", ["de", "zh"])
def test_translations_are_sent_once_and_confirmed_later(url, language):
    address = f"{url}translations/{language}.json"
    response = httpx.get(address, timeout=60)
    assert response.status_code == 200 and response.headers["content-type"] == "application/json"
    assert response.headers["content-encoding"] == "gzip"
    assert response.json() == {english: texts[language] for english, texts in read_translations().items()}
    again = httpx.get(address, headers={"If-None-Match": response.headers["etag"]}, timeout=60)
    assert again.status_code == 304 and again.content == b""


@pytest.mark.parametrize("language", ["en", "fr", "..%2fcalibration"])
def test_there_are_no_other_translations(url, language):
    assert httpx.get(f"{url}translations/{language}.json", timeout=60).status_code == 404
