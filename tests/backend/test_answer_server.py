"""A backend with an answer server: its default method, and where the key comes from."""

from threading import Event

from backend.local import ANSWER_SERVER_KEY
from engine.method import SERVER_METHOD, default_method
from engine.request import Request
from tests.backend.conftest import filled
from tests.support.completion_server import CompletionServer, chunk
from tests.support.doubles import last


def test_questions_go_to_the_server_unless_another_method_is_chosen(start, tmp_path, monkeypatch):
    server = CompletionServer(chunk("Nothing of that."), "data: [DONE]\n\n")
    monkeypatch.setenv(ANSWER_SERVER_KEY, "secret")
    backend = filled(start(answer_server=server.url, answer_server_model="big"), tmp_path)
    methods = backend.methods()
    assert default_method(methods).name == methods[0].name == SERVER_METHOD
    question = Request("What is the maintenance code?", SERVER_METHOD)
    answer = last(backend.ask(question, Event()))
    assert answer.text == "Nothing of that." and answer.sources
    assert server.headers[0]["Authorization"] == "Bearer secret"
    last(backend.ask(Request(question.question, "full", max_new_tokens=4), Event()))
    assert len(server.requests) == 1
    assert 'model_name="kvscope/server"' in backend.metrics_text()
    server.close()


def test_there_is_no_such_method_without_a_server(start):
    assert SERVER_METHOD not in {method.name for method in start().methods()}
