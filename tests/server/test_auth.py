"""Authentication of the running app: every route, programs with keys, and what one client learns of another."""

import base64
import hashlib
import re
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor

import httpx
import openai
import pytest
from bs4 import BeautifulSoup
from gradio_client import Client, handle_file
from gradio_client.exceptions import AuthenticationError
from starlette.routing import Mount

from assets import page_script
from tests.server.conftest import KEYS, PASSWORD, until

OPEN = {"/login", "/logout", "/healthz", "/gradio_api/startup-events"}
BEARER = {"Authorization": f"Bearer {KEYS[0]}"}


def all_routes(routes, prefix=""):
    """Yield the path and methods of every route, with an example in place of each parameter."""
    for route in routes:
        if hasattr(route, "effective_candidates"):  # a router of FastAPI that was included
            yield from all_routes(route.effective_candidates(), prefix)
        elif isinstance(route, Mount):
            yield from all_routes(route.app.routes, prefix + route.path)
        else:
            yield prefix + re.sub(r"\{.*?\}", "x", route.path), route.methods


@pytest.fixture
def routes(guarded):
    found = defaultdict(set)
    for path, methods in all_routes(guarded.page.app.routes):
        found[path] |= methods
    assert {"/", "/config", "/metrics", "/mcp", "/v1/chat/completions", "/assets/x"} < found.keys()
    assert {f"/gradio_api/{name}" for name in ("queue/join", "queue/data", "upload", "file=x", "call/x")} < found.keys()
    assert len(found) > 80
    return found


@pytest.fixture
def client(guarded):
    with httpx.Client(base_url=guarded.url, timeout=60) as client:
        yield client


def status(client, method, path, headers=None):
    """Return the status of a response without its body: some routes stream until the client leaves."""
    with client.stream(method, path, headers=headers) as response:
        assert response.headers["X-Content-Type-Options"] == "nosniff", path
        assert "frame-ancestors 'none'" in response.headers["Content-Security-Policy"], path
        return response.status_code


def test_every_route_is_refused_without_credentials_and_answered_with_a_key(client, routes):
    wrong = {"Authorization": "Bearer wrong", "Cookie": "kvscope_session=wrong"}
    answered = set()
    for path, methods in routes.items():
        for method in methods | {"PROPFIND"}:
            if {status(client, method, path), status(client, method, path, wrong)} != {401}:
                answered.add(path)
            assert status(client, method, path, BEARER) not in (401, 429), (method, path)
    assert answered == OPEN


def test_unknown_paths_and_other_spellings_of_open_ones_are_refused(client):
    spellings = (
        "//healthz",
        "/healthz/",
        "/HEALTHZ",
        "/login/",
        "/healthz%2F..%2Fconfig",
        "/login/../config",
        "/login;x",
    )
    for path in ("/x", "/v1/x/y", "/gradio_api/x", *spellings):
        assert status(client, "GET", path) == 401, path


def test_a_refusal_has_the_format_of_its_readers(client):
    refused = client.get("/v1/models")
    assert refused.json()["error"]["code"] == "invalid_api_key" and refused.headers["WWW-Authenticate"] == "Bearer"
    queue = client.post("/gradio_api/queue/join", json={}).json()
    assert queue["detail"] == queue["error"]["message"]
    page = client.get("/", headers={"Accept": "text/html,*/*"})
    assert (page.status_code, page.headers["Location"]) == (303, "/login")
    assert client.get("/healthz").json() == {"status": "ok"}
    assert "detail" in client.get("/healthz", headers=BEARER).json()


def test_the_page_runs_no_inline_script_but_its_own(client):
    page = client.get("/", headers=BEARER)
    scripts = page.headers["Content-Security-Policy"].partition("script-src ")[2].partition(";")[0]
    inline = [each.string for each in BeautifulSoup(page.text, "html.parser")("script") if each.string]
    hashes = {hashlib.sha256(script.encode()).digest() for script in (*inline, page_script())}
    assert len(inline) == 5 and "unsafe-inline" not in scripts
    assert set(map(base64.b64decode, re.findall(r"'sha256-(.+?)'", scripts))) == hashes
    other = client.get("/v1/docs", headers=BEARER).headers["Content-Security-Policy"]
    assert "sha256" not in other and "script-src 'self'" in other


def test_a_preflight_of_gradio_shows_nothing(client):
    headers = {"Origin": "http://127.0.0.1:1", "Access-Control-Request-Method": "GET"}
    assert {client.options(path, headers=headers).text for path in ("/", "/config", "/v1/models")} == {"OK"}


def test_programs_log_in_with_a_key(guarded, tmp_path):
    with openai.OpenAI(base_url=f"{guarded.url}v1", api_key=KEYS[1], max_retries=0) as client:
        assert client.models.list().data
    wrong = openai.OpenAI(base_url=f"{guarded.url}v1", api_key="wrong", max_retries=0)
    with wrong, pytest.raises(openai.AuthenticationError, match="Log in"):
        wrong.models.list()
    document = tmp_path / "notes.txt"
    document.write_text("The code is 7.")
    gradio = Client(guarded.url, headers=BEARER, verbose=False)
    assert gradio.predict(handle_file(document), api_name="/add_document")[0]["name"] == "notes.txt"
    assert gradio.predict("why?", api_name="/ask")["answer"] == guarded.backend.answer
    with pytest.raises(AuthenticationError):
        Client(guarded.url, verbose=False)


def test_a_session_reaches_everything_from_this_origin_only_and_ends_with_logout(client):
    answer = client.post("/login", data={"password": PASSWORD})
    cookie = answer.headers["Set-Cookie"]
    assert (answer.status_code, answer.headers["Location"]) == (303, "/")
    assert "HttpOnly" in cookie and "SameSite=strict" in cookie and "Secure" not in cookie
    assert client.get("/config").status_code == client.get("/v1/models").status_code == 200
    assert client.get("/login").headers["Location"] == "/"
    own, other = (f"http://{client.base_url.netloc.decode()}", "http://127.0.0.1:1")
    assert client.get("/config", headers={"Origin": own}).status_code == 200
    assert client.get("/config", headers={"Origin": other}).status_code == 403  # has the cookies of this port, too
    client.post("/logout", headers={"Origin": other})
    assert client.get("/logout").status_code == 303 and client.get("/config").status_code == 200
    assert client.post("/logout").status_code == 303 and client.get("/config").status_code == 401


def test_behind_a_proxy_with_tls_its_name_is_accepted_and_the_cookie_is_secure(client):
    headers = {"Host": "kvscope.example.org", "Origin": "https://kvscope.example.org", "X-Forwarded-Proto": "https"}
    answer = client.post("/login", data={"password": PASSWORD}, headers=headers)
    assert answer.status_code == 303 and "Secure" in answer.headers["Set-Cookie"]
    client.cookies.clear()
    sent = headers | {"Cookie": answer.headers["Set-Cookie"].partition(";")[0]}
    assert client.get("/config", headers=sent).json()["root"] == "https://kvscope.example.org"
    assert client.get("/config", headers=sent | {"Origin": "https://evil.example"}).status_code == 403


def test_a_client_may_run_a_limited_number_of_questions_on_whichever_way(guarded, client):
    def ask(key):
        body = {"messages": [{"role": "user", "content": "why?"}]}
        return client.post("/v1/chat/completions", json=body, headers={"Authorization": f"Bearer {key}"})

    gradio = Client(guarded.url, headers=BEARER, verbose=False)
    with ThreadPoolExecutor() as pool:
        with guarded.backend.paused():
            first = gradio.submit("why?", api_name="/ask")
            second = pool.submit(ask, KEYS[0])
            until(lambda: len(guarded.backend.requests) == 2)
            refused = ask(KEYS[0])
            assert (refused.status_code, refused.json()["error"]["code"]) == (429, "rate_limit_exceeded")
            assert int(refused.headers["Retry-After"]) > 0
            with pytest.raises(Exception, match="2 of your questions"):
                gradio.predict("why?", api_name="/ask")
            other = pool.submit(ask, KEYS[1])
            until(lambda: len(guarded.backend.requests) == 3)
        assert second.result().status_code == other.result().status_code == 200
        assert first.result()["answer"] == guarded.backend.answer
    assert ask(KEYS[0]).status_code == 200


def test_no_route_shows_a_question_or_answer_to_another_client(guarded, client, routes):
    guarded.backend.answer = "Answer 7d2f04."
    gradio = Client(guarded.url, headers=BEARER, verbose=False)
    assert "7d2f04" in gradio.predict("Question 7d2f04?", api_name="/ask")["answer"]
    for path, methods in routes.items():
        if "GET" in methods:
            with client.stream("GET", path, headers={"Authorization": f"Bearer {KEYS[1]}"}) as response:
                if "text/event-stream" not in response.headers.get("Content-Type", ""):
                    assert "7d2f04" not in response.read().decode(errors="replace"), path
