"""OpenAI's API on the real embedded model: two turns in a stream, counted."""

import json
from threading import Event

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from app import SAMPLE_QUESTIONS
from engine.answer import Exchange, Request
from tests.engine.doubles import last
from ui.http.serving import app_kwargs

pytestmark = [pytest.mark.embedded]


def test_a_streamed_conversation_says_what_the_page_shows_and_finds_its_passages_in_memory(start):
    backend, messages, earlier = start(), [], []
    client = TestClient(Starlette(**app_kwargs(backend, "127.0.0.1")), base_url="http://127.0.0.1")
    for question in SAMPLE_QUESTIONS[:2]:
        messages.append({"role": "user", "content": question})
        asked = {"messages": messages, "max_tokens": 24, "stream": True, "stream_options": {"include_usage": True}}
        lines = client.post("/v1/chat/completions", json=asked).text.split("\n\n")
        assert lines[-2:] == ["data: [DONE]", ""]
        chunks = [json.loads(line.removeprefix("data: ")) for line in lines[:-2]]
        text = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks[:-1])

        shown = last(backend.ask(Request(question, max_new_tokens=24, earlier=tuple(earlier)), Event()))
        assert text == shown.text != ""
        assert chunks[-1]["usage"]["completion_tokens"] == shown.new_tokens
        assert {source["document"] for source in chunks[-2]["kvscope"]["sources"]} == {
            s.document for s in shown.sources
        }
        assert chunks[-1]["usage"]["prompt_tokens_details"]["cached_tokens"] > 0
        messages.append({"role": "assistant", "content": text})
        earlier.append(Exchange(question, text))
    metrics = client.get("/metrics").text
    assert 'vllm:time_to_first_token_seconds_count{model_name="kvscope/cacheclip"} 4.0' in metrics
    assert client.get("/healthz").json()["status"] == "ok"
