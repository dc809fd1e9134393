"""Pages of PDF files as pictures."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event, Semaphore

import httpx

from server.page_picture import MAX_REQUESTS
from store.types import Document


def test_a_page_is_shown_as_a_picture(url, backend):
    backend.stored_documents = [Document("1" * 64, "a.pdf", 9, 4, 8, 0.0), Document("2" * 64, "b.txt", 9, None, 8, 0.0)]
    query = {"chunk": f"{'1' * 64}-2", "page": "2", "quote": "<b> & x"}
    response = httpx.get(f"{url}page.png", params=query)
    assert response.status_code == 200 and response.content.startswith(b"\x89PNG")
    assert response.headers["content-type"] == "image/png" and response.headers["cache-control"] == "no-store"
    for changed, status in (
        ({"page": "two"}, 400),
        ({"page": "-1"}, 400),
        ({"page": ""}, 400),
        ({"chunk": f"{'2' * 64}-1"}, 404),
        ({"chunk": f"{'3' * 64}-1"}, 404),
    ):
        assert httpx.get(f"{url}page.png", params=query | changed).status_code == status, changed
    assert httpx.get(f"{url}page.png", params=query, headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403


def test_pages_that_take_long_leave_the_other_threads_free(url, backend, monkeypatch):
    started, may_end = Semaphore(0), Event()

    def draw(chunk, page, quote):
        started.release()
        may_end.wait(20)

    monkeypatch.setattr(backend, "page_picture", draw)
    query = {"chunk": "1", "page": "1"}
    with ThreadPoolExecutor(MAX_REQUESTS) as pool:
        drawn = [pool.submit(httpx.get, f"{url}page.png", params=query, timeout=30) for _ in range(MAX_REQUESTS)]
        assert all(started.acquire(timeout=20) for _ in drawn)
        refused = httpx.get(f"{url}page.png", params=query)
        assert refused.status_code == 429 and int(refused.headers["Retry-After"]) > 0
        may_end.set()
        assert {each.result().status_code for each in drawn} == {404}
    assert httpx.get(f"{url}page.png", params=query).status_code == 404
