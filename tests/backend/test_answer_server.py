"""A backend with an answer server: its default method, and where the key comes from."""

from threading import Event

import pytest

from backend.interface.errors import BadSettings
from backend.runtime.secrets import ANSWER_SERVER_KEY, take_secret
from engine.method import SERVER_METHOD, default_method
from engine.request import Request
from tests.backend.conftest import filled
from tests.support.completion_server import CompletionServer, chunk
from tests.support.doubles import last


def test_questions_go_to_the_server_unless_another_method_is_chosen(start, tmp_path):
    server = CompletionServer(chunk("Nothing of that."), "data: [DONE]\n\n")
    backend = filled(start(answer_server=server.url, answer_server_model="big"), tmp_path)
    methods = backend.methods()
    assert default_method(methods).name == methods[0].name == SERVER_METHOD
    question = Request("What is the maintenance code?", SERVER_METHOD)
    answer = last(backend.ask(question, Event()))
    assert answer.text == "Nothing of that." and answer.sources
    assert answer.answered_by.startswith("big on 127.0.0.1") and answer.as_dict()["realised_ratio"] is None
    whole = Request("", SERVER_METHOD, documents=(backend.documents()[0].id,), whole_document=True)
    assert backend.budget(whole).max_tokens < 4096 != backend.budget(Request("")).max_tokens
    last(backend.ask(Request(question.question, "full", max_new_tokens=4), Event()))
    assert len(server.requests) == 1
    assert 'model_name="kvscope/server"' in backend.metrics_text()
    server.close()


def test_there_is_no_such_method_without_a_server(start):
    assert SERVER_METHOD not in {method.name for method in start().methods()}


def test_the_key_is_taken_from_the_environment_and_checked():
    environment = {ANSWER_SERVER_KEY: " sk-1 \r\n", "HOME": "/"}
    assert take_secret(ANSWER_SERVER_KEY, environment) == "sk-1" and environment == {"HOME": "/"}
    assert take_secret(ANSWER_SERVER_KEY, environment) == ""
    for wrong in ("schl\u00fcssel", "a\rb"):
        with pytest.raises(BadSettings) as error:
            take_secret(ANSWER_SERVER_KEY, {ANSWER_SERVER_KEY: wrong})
        assert wrong not in str(error.value)
