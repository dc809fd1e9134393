"""The table of fields in docs/http.md, row by row against the running API."""

import json
import re
from pathlib import Path

import httpx
import pytest
from openai.types.chat import ChatCompletionAssistantMessageParam, ChatCompletionMessage, ChatCompletionUserMessageParam
from openai.types.chat.chat_completion_stream_options_param import ChatCompletionStreamOptionsParam
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming

from engine.request import Request
from server.chat import ChatMessage, ChatRequest, StreamOptions
from server.chat_fields import IGNORED, UNSUPPORTED

DOCUMENTATION = Path(__file__).parents[2] / "docs" / "http.md"
HEAD = "| field | accepted values | effect |\n|---|---|---|\n"
VALUES = (None, True, False, 0, 1, -1, 0.5, 7, "", "x", "none", [], ["x"], [7], {}, {"x": 1}, {"type": "json_object"})
ROW = re.compile(r"\| (`[^|]+) \| ([^|]+) \| ([^|]+) \|")


def table():
    """Return (field, accepted values, kind) for each field of the table."""
    text = DOCUMENTATION.read_text(encoding="utf-8").partition(HEAD)[2].partition("\n\n")[0]
    for fields, accepted, _ in (ROW.fullmatch(line).groups() for line in text.splitlines()):
        values = [json.loads(value) for value in re.findall("`(.+?)`", accepted)]
        kind = "any" if accepted == "any" else "such as" if "such as" in accepted else "only"
        assert (kind == "any") != bool(values), fields
        for field in re.findall("`(.+?)`", fields):
            yield field, values, kind


TABLE = list(table())


def each(kind):
    chosen = [(field, values) for field, values, its_kind in TABLE if its_kind == kind]
    return pytest.mark.parametrize("field, values", chosen, ids=[field for field, _ in chosen])


@pytest.fixture(scope="module")
def client(server):
    with httpx.Client(base_url=f"{server[1]}v1/", timeout=30) as client:
        yield client


@pytest.fixture(autouse=True)
def requests(server):
    """The requests that reach the engine, which answers without pauses."""
    server[0].reset(pace_s=0)
    return server[0].requests


def send(client, field, value):
    """Send a question with this field, and return the response and the place of the field."""
    message, body = {"role": "user", "content": "why?"}, {}
    match field.split("."):
        case ["messages", "content", name]:
            message["content"] = [{"type": "text", "text": "why?", name: value}]
            place = f"messages.0.content.0.{name}"
        case ["messages", name]:
            message[name] = value
            place = f"messages.0.{name}"
        case ["stream_options", name]:
            body = {"stream": True, "stream_options": {name: value}}
            place = field
        case [name]:
            body, place = {name: value}, name
    return client.post("chat/completions", json={"messages": [message], **body}), place


def test_the_table_has_every_field_of_the_code_once():
    fields = [field for field, _, _ in TABLE]
    assert len(fields) == len(set(fields))
    assert set(fields) == {*ChatRequest.model_fields, *UNSUPPORTED, *IGNORED} and not UNSUPPORTED.keys() & IGNORED


def test_every_field_of_openais_client_is_in_the_table():
    known = {field for field, _, _ in TABLE}
    assert known >= CompletionCreateParamsStreaming.__annotations__.keys()
    for kind, place, model in (
        (ChatCompletionUserMessageParam, "messages", ChatMessage),
        (ChatCompletionAssistantMessageParam, "messages", ChatMessage),
        (ChatCompletionMessage, "messages", ChatMessage),
        (ChatCompletionStreamOptionsParam, "stream_options", StreamOptions),
    ):
        names = kind.__annotations__.keys() - model.model_fields.keys()
        assert known >= {f"{place}.{name}" for name in names}, kind


@each("such as")
def test_an_implemented_field_is_accepted_and_its_type_is_checked(client, field, values):
    for value in values if field in ("model", "messages") else (*values, None):
        assert send(client, field, value)[0].status_code == 200, value
    refused, place = send(client, field, "x" if field == "kvscope" else {"x": 1})
    param = refused.json()["error"]["param"]
    assert refused.status_code == 400 and f"{param}.".startswith(f"{place}.")


@each("only")
def test_an_unsupported_field_is_refused_unless_its_value_has_no_effect(client, requests, field, values):
    for value in (*values, None):
        assert send(client, field, value)[0].status_code == 200, value
    assert requests == [Request("why?")] * (len(values) + 1)
    requests.clear()
    for value in VALUES:
        if value is not None and value not in values:
            refused, place = send(client, field, value)
            error = refused.json()["error"]
            assert (refused.status_code, error["type"], error["param"]) == (400, "invalid_request_error", place), value
            assert "leave it out" in error["message"]
    assert requests == []


@each("any")
def test_a_field_that_does_not_matter_is_accepted_with_any_value(client, requests, field, values):
    for value in VALUES:
        assert send(client, field, value)[0].status_code == 200, value
    assert requests == [Request("why?")] * len(VALUES)


@pytest.mark.parametrize("field", ["stopp", "messages.stop", "messages.content.stop", "stream_options.stop"])
def test_a_field_that_is_not_in_the_table_is_refused(client, requests, field):
    refused, place = send(client, field, "x")
    error = refused.json()["error"]
    assert (refused.status_code, error["type"], error["param"]) == (400, "invalid_request_error", place)
    assert error["message"] == f"Unrecognized request argument supplied: {field.rpartition('.')[2]}"
    assert requests == []
