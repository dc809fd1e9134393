"""The OpenAI-compatible API as its clients use it, the host guard, and downloads."""

import json
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from unittest.mock import Mock

import httpx
import openai
import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from backend.interface.backend import Status
from backend.interface.limits import MAX_QUESTIONS
from engine.errors import LoadingFailed, QuestionTooLong
from engine.request import ChatTurn, Request
from server.routes import MAX_BODY_BYTES, app_kwargs
from store.errors import ExportFailed, LibraryUnavailable
from store.feedback import FILE_NAME, Feedback, Rating
from tests.server.conftest import until
from tests.support.fake_backend.backend import METHODS, FakeBackend

CHAT = "v1/chat/completions"
ASK = {"messages": [{"role": "user", "content": "why?"}]}


@pytest.fixture
def client(url):
    with openai.OpenAI(base_url=f"{url}v1", api_key="any", max_retries=0) as client:
        yield client


def post(url, **fields):
    return httpx.post(f"{url}{CHAT}", json={**ASK, **fields}, timeout=30)


def test_the_openai_client_streams_a_conversation(client, backend):
    messages = []
    for question in ("What is the code?", "And the form?"):
        messages.append({"role": "user", "content": [{"type": "text", "text": question}]})
        chunks = list(
            client.chat.completions.create(
                model="kvscope/cacheblend@15",
                messages=messages,
                stream=True,
                stream_options={"include_usage": True},
                max_tokens=64,
                seed=7,
                extra_body={"kvscope": {"passages": 5, "options": {"check_layer": 2}}},
            )
        )
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
        assert text == backend.answer and len(chunks) > 5
        messages.append({"role": "assistant", "content": text})
    earlier = (ChatTurn("What is the code?", backend.answer),)
    expected = Request("And the form?", "cacheblend", 0.15, 5, 64, seed=7, options={"check_layer": 2}, history=earlier)
    assert backend.requests[-1] == expected

    *_, finish, last = chunks
    assert finish.choices[0].finish_reason == "stop" and last.choices == []
    assert [source["cited"] for source in finish.kvscope["sources"]] == [True, True, False]
    assert finish.kvscope["ttft_ms"] > 0 and finish.kvscope["method"] == "cacheblend"
    reused = [source for source in finish.kvscope["sources"] if source["found"] != "miss"]
    assert last.usage.prompt_tokens_details.cached_tokens == sum(each["tokens"] - each["recomputed"] for each in reused)
    assert last.usage.total_tokens == last.usage.prompt_tokens + last.usage.completion_tokens


@pytest.mark.parametrize("path", ["v1/models", "v1/models/kvscope", "healthz", "metrics"])
def test_head_requests_are_answered(url, path):
    response = httpx.head(f"{url}{path}", timeout=60)
    assert response.status_code == 200 and response.content == b""


def test_a_complete_answer_has_usage_and_sources(client, backend):
    answer = client.chat.completions.create(model="kvscope", **ASK)
    assert answer.choices[0].message.content == backend.answer
    assert answer.usage.completion_tokens > 0 and len(answer.kvscope["sources"]) == 3
    assert [answer.kvscope[name] for name in ("confidence", "quotes", "alternatives")] == [None, [], []]
    assert backend.requests[-1] == Request("why?")


def test_methods_are_models_with_an_optional_ratio(client):
    assert [model.id for model in client.models.list()] == ["kvscope", *(f"kvscope/{each.name}" for each in METHODS)]
    assert client.models.retrieve("kvscope/cacheblend@15").kvscope["label"] == "CacheBlend"
    for name, message in (
        ("gpt-4", "Use kvscope, or kvscope/METHOD with one of: cacheclip"),
        ("kvscope/epic@20", "This method has no recompute ratio; use kvscope/epic"),
        ("kvscope@101", "a percentage, 0 to 100"),
    ):
        with pytest.raises(openai.NotFoundError, match=message):
            client.models.retrieve(name)
        with pytest.raises(openai.NotFoundError, match=message):
            client.chat.completions.create(model=name, **ASK)


@pytest.mark.parametrize(
    "fields, param, message",
    [
        ({"messages": []}, "messages", "at least 1"),
        ({"messages": "hello"}, "messages", "list"),
        ({"messages": [{"role": "assistant", "content": "hello"}]}, "messages", "role 'user'"),
        ({"messages": [{"role": "tool", "content": "4", "tool_call_id": "x"}]}, "messages.0.role", "'tool' is"),
        ({"messages": [{"role": "user", "content": None}]}, "messages.0.content", "must be a string"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages.0.content.0", "'image_url'"),
        ({"n": 2}, "n", "leave it out"),
        ({"stopp": ["."]}, "stopp", "Unrecognized request argument supplied: stopp"),
        ({"temperature": "hot"}, "temperature", "number"),
        ({"kvscope": {"passage": 3}}, "kvscope.passage", "not permitted"),
        ({"kvscope": {"options": {"tokens": 3}}}, None, "is not an option of the method"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_an_invalid_request_is_refused_with_the_name_of_the_field(url, fields, param, message, stream):
    refused = post(url, stream=stream, **fields)
    error = refused.json()["error"]
    assert (refused.status_code, error["type"], error["param"]) == (400, "invalid_request_error", param)
    assert message in error["message"]


def test_consecutive_messages_are_joined_and_a_greeting_is_no_turn(url, backend):
    messages = [("assistant", "Ask me."), ("user", "Who?"), ("user", "And why?")]
    assert post(url, messages=[{"role": r, "content": c} for r, c in messages]).status_code == 200
    assert backend.requests[-1] == Request("Who?\n\nAnd why?")


@pytest.mark.parametrize("role", ["system", "developer"])
@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("stream", [False, True])
def test_instructions_are_refused_unless_they_are_empty(url, backend, role, place, stream):
    for content in ("Talk like a pirate.", [{"type": "text", "text": "Talk like a pirate."}]):
        messages = [*ASK["messages"], *ASK["messages"]]
        messages.insert(place, {"role": role, "content": content})
        refused = post(url, stream=stream, messages=messages)
        error = refused.json()["error"]
        assert (refused.status_code, error["param"]) == (400, f"messages.{place}.role")
        assert f"cannot follow a {role} message" in error["message"] and "Remove" in error["message"]
    assert backend.requests == []
    for content in ("", " \n", [], [{"type": "text", "text": "\t"}]):
        messages = list(ASK["messages"])
        messages.insert(place, {"role": role, "content": content})
        assert post(url, stream=stream, messages=messages).status_code == 200
        assert backend.requests[-1] == Request("why?")


@pytest.mark.parametrize("stream", [False, True])
def test_engine_errors_have_their_status_and_bugs_send_no_traceback(url, backend, stream, caplog):
    for error, status, code in (
        (QuestionTooLong("It has 9,000 tokens."), 400, "context_length_exceeded"),
        (LoadingFailed("No model."), 503, "loading_failed"),
        (ZeroDivisionError("secret"), 500, None),
    ):
        backend.error = error
        refused = post(url, stream=stream)
        assert (refused.status_code, refused.json()["error"]["code"]) == (status, code)
        assert "Traceback" not in refused.text and "Retry-After" not in refused.headers
    assert caplog.records[-1].exc_info[0] is ZeroDivisionError


def test_a_library_server_that_cannot_be_reached_is_no_fault_of_the_request(url, backend):
    backend.error = LibraryUnavailable("The library does not answer.")
    refused = post(url)
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "library_unavailable")
    assert int(refused.headers["Retry-After"]) > 0


def test_during_loading_health_checks_and_requests_report_it(url, client, backend):
    assert httpx.get(f"{url}healthz", timeout=60).json()["status"] == "ok"
    backend.state = Status(ready=False, message="Loading the model: 40 %")
    health = httpx.get(f"{url}healthz", timeout=60)
    assert (health.status_code, health.json()) == (503, {"status": "loading", "detail": "Loading the model: 40 %"})
    with pytest.raises(openai.InternalServerError, match="still loading") as refused:
        client.chat.completions.create(model="kvscope", stream=True, **ASK)
    assert refused.value.status_code == 503 and int(refused.value.response.headers["Retry-After"]) > 0
    backend.state = Status(ready=False, message="No model.", failed=True)
    assert httpx.get(f"{url}healthz", timeout=60).json() == {"status": "failed", "detail": "No model."}


@pytest.mark.parametrize("stream", [False, True])
def test_closing_the_connection_cancels_the_request(url, backend, stream):
    backend.pace_s = 0.2
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{url}{CHAT}", json={**ASK, "stream": stream}, timeout=httpx.Timeout(60, read=0.15))
    until(lambda: backend.cancelled == [True])


def test_a_stopped_answer_ends_in_an_error(client, backend, monkeypatch):
    backend.pause_after_words, stops, answers = 3, [], backend.answers_to
    monkeypatch.setattr(backend, "answers_to", lambda request, stop: (stops.append(stop), answers(request, stop))[1])
    stream = client.chat.completions.create(model="kvscope", stream=True, **ASK)
    with pytest.raises(openai.APIError, match="stopped before its end"):
        for chunk in stream:
            if chunk.choices[0].delta.content:
                stops[0].set()
    with ThreadPoolExecutor() as pool:
        whole = pool.submit(lambda: client.chat.completions.create(model="kvscope", **ASK))
        until(lambda: len(stops) == 2)
        stops[1].set()
        with pytest.raises(openai.InternalServerError, match="stopped before its end"):
            whole.result()


def test_an_error_during_a_stream_is_an_event_without_an_end_mark(url, backend, monkeypatch):
    def broken(request, cancel):
        yield from list(FakeBackend(0).answers_to(request, Event()))[:-3]
        raise QuestionTooLong("It grew.")

    monkeypatch.setattr(backend, "answers_to", broken)
    *_, last = [line for line in post(url, stream=True).text.splitlines() if line]
    assert json.loads(last.removeprefix("data: "))["error"]["code"] == "context_length_exceeded"


def test_too_many_concurrent_requests_are_refused_with_retry_after(url, backend, monkeypatch):
    gate, waiting, answers = Event(), [], backend.answers_to

    def gated(request, cancel):
        waiting.append(request)
        gate.wait(60)
        yield from answers(request, cancel)

    monkeypatch.setattr(backend, "answers_to", gated)
    with ThreadPoolExecutor(MAX_QUESTIONS) as pool:
        posted = [pool.submit(post, url, stream=True) for _ in range(MAX_QUESTIONS)]
        until(lambda: len(waiting) == MAX_QUESTIONS)
        refused = post(url)
        gate.set()
        assert refused.status_code == 429 and int(refused.headers["Retry-After"]) > 0
        assert {each.result().status_code for each in posted} == {200}
    assert post(url).status_code == 200


def test_a_body_that_is_not_json_or_too_large_is_refused(url):
    body = json.dumps(ASK).encode()
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""):
        headers = {"Content-Type": kind}
        assert httpx.post(f"{url}{CHAT}", content=body, headers=headers, timeout=60).status_code == 415
    plain = {"Content-Type": "application/json; charset=utf-8"}
    assert httpx.post(f"{url}{CHAT}", content=body, headers=plain, timeout=60).status_code == 200
    for broken in (b"{", b"[1]", b"\xff", b"", b"[" * 100_000):
        assert httpx.post(f"{url}{CHAT}", content=broken, headers=plain, timeout=60).status_code == 400
    long = b" " * MAX_BODY_BYTES + body
    unsaid = (long[start : start + 2**16] for start in range(0, len(long), 2**16))
    refused = httpx.post(f"{url}{CHAT}", content=long, headers=plain, timeout=60)
    assert refused.status_code == 413 and "larger than 1 MiB" in refused.text
    assert httpx.post(f"{url}{CHAT}", content=unsaid, headers=plain, timeout=60).status_code == 413


def test_an_unknown_url_lists_the_available_ones(url):
    for method, path in (("POST", "v1/embeddings"), ("GET", CHAT)):
        refused = httpx.request(method, f"{url}{path}")
        assert refused.status_code == 404 and "/v1/models" in refused.json()["error"]["message"]


def test_the_schema_describes_the_requests_and_the_docs_page_shows_it_without_other_servers(url):
    schema = httpx.get(f"{url}v1/openapi.json").json()
    assert {f"{method} {path}" for path, operations in schema["paths"].items() for method in operations} == {
        *("get /models", "get /models/{name}", "post /chat/completions")
    }
    fields = schema["components"]["schemas"]["ChatRequest"]["properties"]
    assert {"model", "messages", "stream", "seed", "kvscope"} <= fields.keys()
    page = httpx.get(f"{url}v1/docs").text
    assert "POST /v1/chat/completions" in page and fields["messages"]["description"] in page
    assert "src=" not in page and "://" not in page and "@import" not in page


@pytest.mark.parametrize("path", ["", "v1/models", "healthz", "metrics", "gradio_api/info", "v1/docs"])
def test_rebound_names_and_foreign_origins_reach_neither_the_ui_nor_the_api(url, path):
    for headers in ({"Host": "evil.example"}, {"Host": ""}, {"Origin": "http://evil.example"}, {"Origin": "null"}):
        assert httpx.get(f"{url}{path}", headers=headers, timeout=60).status_code == 403, headers
    port = httpx.URL(url).port
    for headers in ({"Host": f"localhost:{port}"}, {"Origin": url.rstrip("/")}, {"Origin": "http://localhost:3000"}):
        assert httpx.get(f"{url}{path}", headers=headers, timeout=60).status_code == 200, headers


@pytest.mark.parametrize(
    "listens, host, origin, accepted",
    [
        ("127.0.0.1", "127.0.0.1:7860", None, True),
        ("127.0.0.1", "[::1]:7860", None, True),
        ("127.0.0.1", "a.localhost", None, True),
        ("127.0.0.1", "192.168.1.5:7860", None, False),
        ("127.0.0.1", "localhost.evil.example", None, False),
        ("127.0.0.1", "127.0.0.1.evil.example", None, False),
        ("127.0.0.1", "localhost@evil.example", None, False),
        ("127.0.0.1", "127.0.0.1/login?", None, False),
        ("127.0.0.1", "evil.example@127.0.0.1", None, False),
        ("192.168.1.5", "192.168.1.5:7860", "http://192.168.1.5:7860", True),
        ("192.168.1.5", "192.168.1.5:7860", "http://192.168.1.6:7860", False),
        ("192.168.1.5", "192.168.1.5:7860", "http://localhost:7860", False),
        ("Reading-Room.lan", "reading-room.lan:7860", None, True),
        ("0.0.0.0", "192.168.1.5:7860", None, True),
        ("0.0.0.0", "192.168.1.5:7860", "http://203.0.113.9", False),
        ("::", "[fe80::1]:7860", None, True),
        ("0.0.0.0", "evil.example", None, False),
    ],
)
def test_only_own_names_and_origins_are_accepted(listens, host, origin, accepted):
    app = Starlette(**app_kwargs(FakeBackend(), listens))
    headers = {"Host": host} | ({"Origin": origin} if origin else {})
    assert TestClient(app).get("/healthz", headers=headers).status_code == (200 if accepted else 403)


def test_a_draft_is_sent_apart_from_the_verified_text_and_only_on_request(client, backend):
    backend.draft = "The code is 1."
    options = {"model": "kvscope/full", "stream": True, **ASK}
    without = list(client.chat.completions.create(**options))
    assert not [chunk for chunk in without if "draft_delta" in (getattr(chunk, "kvscope", None) or {})]
    *chunks, finish = client.chat.completions.create(**options, extra_body={"kvscope": {"draft": True}})
    drafted = [chunk for chunk in chunks if hasattr(chunk, "kvscope")]
    assert "".join(chunk.kvscope["draft_delta"] for chunk in drafted) == backend.draft
    assert not any(chunk.choices[0].delta.content for chunk in drafted)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == backend.answer
    assert chunks.index(drafted[-1]) < next(i for i, chunk in enumerate(chunks) if chunk.choices[0].delta.content)
    assert finish.kvscope["draft"] == {"answer": backend.draft, "ttft_ms": 58.0, "status": "changed"}


def test_the_library_is_downloaded_as_a_file(url):
    response = httpx.get(f"{url}library.zip")
    assert response.status_code == 200 and response.content == b"PK exported"
    assert "attachment" in response.headers["content-disposition"]


def test_ratings_are_downloaded_as_lines_but_not_by_another_site(url, backend):
    backend.feedback.put(Rating("1", 5.0, "Who?", "She.", True, "full", ()))
    response = httpx.get(f"{url}ratings.jsonl")
    assert json.loads(response.text)["answers"] == ["She."]
    assert "attachment" in response.headers["content-disposition"]
    assert httpx.get(f"{url}ratings.jsonl", headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403


def test_ratings_that_cannot_be_read_are_an_error_without_the_folder(url, backend, tmp_path):
    backend.feedback = Feedback(tmp_path)
    (tmp_path / FILE_NAME).mkdir()
    response = httpx.get(f"{url}ratings.jsonl")
    assert (response.status_code, response.json()["error"]["code"]) == (500, "ratings_unreadable")
    assert FILE_NAME in response.text and str(tmp_path) not in response.text


def test_the_page_is_compressed_for_clients_that_can_read_it(url):
    with httpx.stream("GET", url) as packed:
        size = sum(map(len, packed.iter_raw()))
    plain = httpx.get(url, headers={"Accept-Encoding": "identity"})
    assert packed.headers["content-encoding"] == "gzip" and "content-encoding" not in plain.headers
    assert "sha256-" in packed.headers["content-security-policy"]
    assert httpx.get(url).text == plain.text and 3 * size < len(plain.content)


def test_the_library_is_exported_for_this_site_once_at_a_time(url, backend, monkeypatch):
    started, may_end = Event(), Event()

    def export(target):
        started.set()
        may_end.wait(20)

    monkeypatch.setattr(backend, "export", export)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(httpx.get, f"{url}library.zip", timeout=30)
        assert started.wait(20)
        assert httpx.get(f"{url}library.zip").status_code == 429
        assert httpx.head(f"{url}library.zip").status_code == 200  # without an export
        may_end.set()
        assert first.result().status_code == 200
    assert httpx.get(f"{url}library.zip", headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403
    monkeypatch.setattr(backend, "export", Mock(side_effect=ExportFailed("a.txt is damaged.")))
    refused = httpx.get(f"{url}library.zip")
    assert refused.status_code == 500 and refused.json()["error"]["code"] == "export_failed"
    monkeypatch.setattr(backend, "export", lambda target: 1 / 0)
    assert httpx.get(f"{url}library.zip").json()["error"]["type"] == "server_error"
    monkeypatch.undo()
    assert httpx.get(f"{url}library.zip").content == b"PK exported"
