"""The MCP server with the official client: over HTTP in the running app, with and without keys, and over stdio."""

import base64
import hashlib
import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from functools import partial
from threading import Event
from types import SimpleNamespace

import anyio
import httpx
import httpx2
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from app import main
from engine.answer_server import AnswerServer, method_info
from engine.request import Quote, Request
from engine.strategies import list_methods
from server.bodies import MAX_EVENT_BYTES
from server.mcp import tools as mcp_tools
from server.mcp import transports
from store.audit import ACTIONS, AuditLog
from store.lock import FolderLock
from tests.server.conftest import GUARDED, KEYS, LIMITS, serving
from tests.support.victim import ROOT
from tests.test_temporary_files import APP

NAMES = ["search", "ask", "list_documents", "add_document"]
TEXT = "The spare key hangs behind the clock."
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}
ACCEPT = {"Accept": "application/json, text/event-stream"}
MODES = ["auto", "legacy"]  # each request by itself, and sessions that begin with 'initialize'


@asynccontextmanager
async def connected(url, key="", mode="auto", **options):
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with httpx2.AsyncClient(headers=headers, timeout=30) as http_client:
        transport = streamable_http_client(f"{url}mcp", http_client=http_client)
        async with Client(transport, mode=mode, **options) as client:
            yield client


def in_event_loop(coroutine_function):
    """Run it in a thread: Playwright's event loop may be running in this one."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(anyio.run, coroutine_function).result()


def run(url, use, **options):
    """Call a coroutine function with a client."""

    async def connect():
        async with connected(url, **options) as client:
            await use(client)

    in_event_loop(connect)


async def call(client, tool, **arguments):
    """Return the structured result, whose schema the client checks."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    assert json.loads(result.content[0].text) == result.structured_content
    return result.structured_content


async def error(client, tool, **arguments):
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    return result.content[0].text


@pytest.mark.parametrize("mode", MODES)
def test_each_tool_over_http(url, backend, mode):
    async def use(client):
        assert (client.server_info.name, client.instructions[:8]) == ("kvscope", "The user")
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert list(tools) == NAMES and all(tool.description and tool.output_schema for tool in tools.values())
        assert [name for name in NAMES if tools[name].annotations.read_only_hint] == NAMES[:3]
        added = await call(client, "add_document", name="key.md", text=TEXT)
        document = added["document"]
        assert (document["id"], document["name"]) == (hashlib.sha256(TEXT.encode()).hexdigest(), "key.md")
        other = base64.encodebytes(b"\x00PDF" * 50).decode()
        assert (await call(client, "add_document", name="other.pdf", content=other))["document"]["size_bytes"] == 200
        listed = await call(client, "list_documents")
        assert [each["name"] for each in listed["documents"]] == ["other.pdf", "key.md"]
        passages = (await call(client, "search", query="Where?", documents=["key.md"], passages=2))["passages"]
        assert [each["text"] for each in passages] == backend.texts[:2]
        assert passages[0]["document"] == "key.md" and passages[0]["page"] == 11 and passages[0]["score"] == 1
        answer = await call(client, "ask", question="Where?", documents=[document["id"]])
        assert answer["answer"] == backend.answer and answer["method"] == "cacheclip" and answer["ttft_ms"] > 0
        assert [each["number"] for each in answer["citations"]] == [1, 2] and answer["citations"][0]["is_marked"]
        assert answer["recompute_ratio"] == pytest.approx(0.182, abs=0.01) and "left out" in answer["notes"][0]
        full = await call(client, "ask", question="Where?", method="full", max_tokens=9, recompute_ratio=0.5)
        assert full["method"] == "full"
        backend.library.add_to_collection([document["id"]], "Keys")
        assert (await call(client, "list_documents"))["documents"][1]["collections"] == ["Keys"]
        await call(client, "ask", question="Where?", documents=["Keys", "other.pdf"])
        in_scope = [request.documents for request in backend.requests]
        assert in_scope[:2] == [(document["id"],), ()] and in_scope[2][0] == "collection:Keys" and len(in_scope[2]) == 2
        assert (backend.requests[1].max_new_tokens, backend.requests[1].recompute_ratio) == (9, 0.5)

    run(url, use, mode=mode)


def test_citations_are_what_the_answer_marks_or_a_quote_is_from(backend):
    *_, answer = backend.ask(Request("Why?"), Event())
    answer.quotes = (Quote(3, 0, 4, "word"), Quote(3, 5, 9, "text"))
    cited = [(each.number, each.is_marked, each.quotes) for each in mcp_tools.citations(answer)]
    assert cited == [(1, True, []), (2, True, []), (3, False, ["word", "text"])]


def test_what_else_may_answer_comes_with_its_source(backend):
    *_, answer = backend.ask(Request("Why?"), Event())
    answer.alternatives = (Quote(1, 0, 4, "word", "key.md"),)
    (other,) = mcp_tools.alternatives(answer)
    assert (other.number, other.document, other.page, other.quote) == (1, "key.md", answer.sources[0].page, "word")


def test_bad_arguments_are_answered_with_a_sentence(url, backend):
    async def use(client):
        assert "passages: Input should be a valid integer" in await error(client, "search", query="x", passages="many")
        assert "between 1 and 64, got 65" in await error(client, "search", query="x", passages=65)
        assert "The question is empty" in await error(client, "search", query=" ")
        assert "'x.pdf'. list_documents has" in await error(client, "ask", question="x", documents=["x.pdf"])
        assert "'magic' is not one of" in await error(client, "ask", question="x", method="magic")
        assert "url: Extra inputs" in await error(client, "add_document", name="a", text="b", url="http://x")
        for both in ({}, {"text": "a", "content": "YQ=="}):
            assert "Give either" in await error(client, "add_document", name="a.txt", **both)
        assert "not base64" in await error(client, "add_document", name="a.txt", content="..")
        assert "The file is empty" in await error(client, "add_document", name="a.txt", text="")
        backend.error = RuntimeError("secret")
        assert (
            await error(client, "ask", question="x") == "Something went wrong (RuntimeError). See the log for details."
        )
        with pytest.raises(MCPError, match="There is no tool 'delete'"):
            await client.call_tool("delete", {})

    run(url, use)


@pytest.mark.parametrize("mode", MODES)
def test_a_cancelled_call_stops_and_reports_progress_before(url, backend, mode, monkeypatch):
    monkeypatch.setattr(mcp_tools, "POLL_S", 0.01)
    progress = []

    async def report(done, total, message):
        progress.append(message)

    async def use(client):
        async def question():
            await client.call_tool("ask", {"question": "Why?"}, progress_callback=report)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(question)
            while "writing" not in progress:
                await anyio.sleep(0.01)
            tasks.cancel_scope.cancel()
        while not backend.cancelled:
            await anyio.sleep(0.01)

    with backend.paused(after=3):
        run(url, use, mode=mode)
        assert backend.cancelled == [True]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def keyed(folder):
    limits = SimpleNamespace(**{**vars(LIMITS), "client_uploads": 1})
    with serving(replace(GUARDED, limits=limits), AuditLog(folder)) as server:
        yield server


def test_without_a_key_and_from_other_pages_it_is_refused(keyed, url):
    post = partial(httpx.post, json=INITIALIZE)
    assert post(f"{keyed.url}mcp", headers=ACCEPT).status_code == 401
    wrong = ACCEPT | {"Authorization": "Bearer wrong"}
    assert post(f"{keyed.url}mcp", headers=wrong).headers["WWW-Authenticate"] == "Bearer"
    for name, value in (("Host", "evil.example"), ("Origin", "http://evil.example")):
        assert post(f"{url}mcp", headers=ACCEPT | {name: value}).status_code == 403
    simple = httpx.post(f"{url}mcp", content=json.dumps(INITIALIZE), headers=ACCEPT | {"Content-Type": "text/plain"})
    assert simple.status_code == 400
    large = httpx.post(f"{url}mcp", content=b" " * (MAX_EVENT_BYTES + 1), headers={"Content-Type": "application/json"})
    assert large.status_code == 413
    response = post(f"{url}mcp", headers=ACCEPT)
    assert response.status_code == 200 and "frame-ancestors 'none'" in response.headers["Content-Security-Policy"]


def test_a_session_is_its_clients_only(keyed):
    def post(key, message, **headers):
        headers = ACCEPT | {"Authorization": f"Bearer {key}"} | headers
        return httpx.post(f"{keyed.url}mcp", json=message, headers=headers)

    session = {"Mcp-Session-Id": post(KEYS[0], INITIALIZE).headers["Mcp-Session-Id"]}
    ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
    assert [post(key, ping, **session).status_code for key in KEYS] == [200, 404]


def test_a_client_cannot_open_all_sessions(keyed, monkeypatch):
    monkeypatch.setattr(transports, "MAX_CLIENT_SESSIONS", 10)

    def initialize(key):
        headers = ACCEPT | {"Authorization": f"Bearer {key}"}
        return httpx.post(f"{keyed.url}mcp", json=INITIALIZE, headers=headers)

    responses = [initialize(KEYS[0]) for _ in range(11)]
    assert responses[-1].status_code == 503 and "Too many open sessions" in responses[-1].text
    assert initialize(KEYS[1]).status_code == 200
    opened = next(each.headers for each in responses if each.status_code == 200)
    headers = ACCEPT | {"Authorization": f"Bearer {KEYS[0]}", "Mcp-Session-Id": opened["Mcp-Session-Id"]}
    assert httpx.delete(f"{keyed.url}mcp", headers=headers).status_code == 200
    assert initialize(KEYS[0]).status_code == 200


@pytest.mark.parametrize("mode", MODES)
def test_clients_have_the_limits_and_entries_that_they_have_elsewhere(keyed, folder, mode):
    keyed.backend.reset(pace_s=0.002)

    async def use(client):
        await call(client, "add_document", name=f"{mode}.md", text=mode)
        async with anyio.create_task_group() as tasks:
            with keyed.backend.paused():
                for _ in range(2):
                    tasks.start_soon(partial(call, client, "ask", question="Why?"))
                while len(keyed.backend.requests) < 2:
                    await anyio.sleep(0.01)
                assert "2 of your questions" in await error(client, "ask", question="Why?")
                assert "2 of your questions" in await error(client, "search", query="Why?")
        assert "Too many uploads per hour" in await error(client, "add_document", name="b.md", text="b")

    key = KEYS[MODES.index(mode)]
    run(keyed.url, use, key=key, mode=mode)
    *_, entry = map(json.loads, (folder / "audit" / ACTIONS).read_text().splitlines())
    label = f"key {hashlib.sha256(key.encode()).hexdigest()[:8]}"
    assert (entry["client"], entry["action"], entry["name"]) == (label, "add", f"{mode}.md")


def test_ask_says_whether_another_server_answers(backend, monkeypatch):
    async def use():
        async with Client(mcp_tools.Tools(backend).server()) as client:
            return {tool.name for tool in (await client.list_tools()).tools if tool.annotations.open_world_hint}

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(anyio.run, use).result() == set()
        server = AnswerServer("http://127.0.0.1:1/v1", "big")
        monkeypatch.setattr(backend, "methods", lambda: [method_info(server), *list_methods()])
        assert pool.submit(anyio.run, use).result() == {"ask"}


def test_questions_at_a_time_are_limited(url, backend):
    tools = mcp_tools.Tools(backend, max_questions=1)

    async def use():
        async with Client(tools.server()) as client, anyio.create_task_group() as tasks:
            with backend.paused():
                tasks.start_soon(partial(call, client, "ask", question="Why?"))
                while not backend.requests:
                    await anyio.sleep(0.01)
                assert "1 questions are already running" in await error(client, "search", query="Why?")
                assert await call(client, "list_documents") == {"documents": []}

    in_event_loop(use)


def stdio_server(data):
    program = f"import atexit, sys\natexit.register(lambda: print('gradio' in sys.modules, file=sys.stderr))\n{APP}"
    command = ["-c", program, "--mcp", "--data", str(data)]
    return StdioServerParameters(command=sys.executable, args=command, cwd=ROOT, env=dict(os.environ))


def test_stdio(tmp_path):
    async def use():
        with (tmp_path / "log").open("w+") as log:
            async with Client(stdio_client(stdio_server(tmp_path / "data"), errlog=log), mode="legacy") as client:
                assert [tool.name for tool in (await client.list_tools()).tools] == NAMES
                assert "5730264" in (await call(client, "ask", question="Which code?"))["answer"]
                with anyio.move_on_after(0.5):
                    await client.call_tool("add_document", {"name": "waits.txt", "text": TEXT})
                assert await call(client, "list_documents") == {"documents": []}
            log.seek(0)
            lines = log.read().splitlines()
            assert lines[0].endswith("Serving MCP on stdin and stdout")
            assert lines[-1] == "False", "Gradio takes seconds to import, and there is no page"

    in_event_loop(use)
    entry = json.loads((tmp_path / "data" / "audit" / ACTIONS).read_text())
    assert (entry["client"], entry["outcome"], entry["name"]) == ("stdio", "failed", "waits.txt")
    FolderLock(tmp_path / "data").close()
    assert not (tmp_path / "data" / "kvscope-temporary").exists()


def test_a_folder_in_use_names_the_address_to_use_instead(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("sys.argv", ["app.py", "--mcp", "--data", str(tmp_path)])
    before = os.umask(0o022)
    with closing(FolderLock(tmp_path, "http://127.0.0.1:7861")):
        assert main() == 1
    assert "serves MCP at http://127.0.0.1:7861/mcp" in caplog.text
    with closing(FolderLock(tmp_path)):
        assert main() == 1
    os.umask(before)
    assert caplog.text.count("/mcp") == 1 and caplog.text.count(f"process {os.getpid()}") == 2
