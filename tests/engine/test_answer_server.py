"""Answers by a model on another server: what is sent, what becomes of its stream, and each way it can fail."""

from threading import Event, Timer

import pytest

from engine.answer_server import SYSTEM, AnswerServer, AnswerServerFailed, _without_thoughts, ask_server, method_info
from engine.errors import BadRequest, QuestionTooLong
from engine.method import SERVER_METHOD, default_method, local_methods, server_note
from engine.request import ChatTurn, Request
from engine.strategies import list_methods
from tests.support.completion_server import CompletionServer, chunk
from tests.support.doubles import TEXTS, last, make_engine

ASK = Request("What is the maintenance code of the ferry?", SERVER_METHOD, passages=2)
DONE = "data: [DONE]\n\n"


@pytest.fixture
def serve():
    """Start a server that sends these lines."""
    started = []

    def start(*lines, **options):
        started.append(CompletionServer(*lines, **options))
        return started[-1]

    yield start
    for each in started:
        each.hold.set()
        each.close()


def ask(double, request=ASK, cancel=None, key="", context=4096):
    engine = make_engine("ferry", "tern")
    return ask_server(engine, AnswerServer(double.url, "big", key, context), request, cancel or Event())


def test_the_question_and_its_passages_are_sent_and_the_answer_is_streamed_and_cited(serve):
    sentence = TEXTS["ferry"].split(". ")[0] + "."
    words = sentence.split(" ")
    pieces = [chunk(f"{word} ") for word in words]
    double = serve(": comment\n\n", *pieces, chunk("", "stop"), 'data: {"choices": []}\n', DONE)
    states = []
    for answer in ask(double, key="secret"):
        states.append((answer.state, answer.text))
    assert answer.state == "done" and answer.text == f"{sentence} [1]" and not answer.truncated
    assert len({text for _, text in states}) > 3 and "writing" in {state for state, _ in states}
    assert answer.sources[0].cited and answer.trace.ttft_ms is not None and answer.new_tokens >= len(words)
    assert {stage.name for stage in answer.trace.stages} >= {"search", "answer server", "decode"}
    (body,) = double.requests
    assert body["model"] == "big" and body["stream"] and body["max_tokens"] == 256 and body["temperature"] == 0
    system, user = body["messages"]
    assert system == {"role": "system", "content": SYSTEM}
    assert all(TEXTS[name] in user["content"] and f"{name}.txt" in user["content"] for name in ("ferry", "tern"))
    assert user["content"].endswith(f"Question: {ASK.question}")
    assert double.headers[0]["Authorization"] == "Bearer secret"


def test_a_follow_up_is_sent_with_the_questions_it_needs(serve):
    double = serve(chunk("Yes."), DONE)
    turn = ChatTurn("Which boat sails the Bay Route?", "The ferry.")
    last(ask(double, Request("Who owns it?", SERVER_METHOD, history=(turn,))))
    assert "Bay Route" in double.requests[0]["messages"][1]["content"]
    assert "Authorization" not in double.headers[0]


def test_a_server_that_does_not_stream_and_one_that_reaches_its_limit(serve):
    whole = '{\n "choices": [{"message": {"content": "4417."}, "finish_reason": "length"}]}'
    answer = last(ask(serve(whole, kind="application/json")))
    assert answer.text == "4417." and answer.truncated


@pytest.mark.parametrize(
    "pieces, text",
    [
        (["<th", "ink>long", " thoughts</thi", "nk>\n\nFour", "."], "Four."),
        (["  ", "\n4", "4"], "44"),
        (["<", "b>"], "<b>"),
        (["<think>never ends"], ""),
        ([], ""),
    ],
)
def test_reasoning_before_the_answer_is_left_out(pieces, text):
    assert "".join(_without_thoughts(iter(pieces))) == text


@pytest.mark.parametrize(
    "lines, options, message",
    [
        (['{"error": {"message": "model \'big\' not found"}}'], {"status": 404}, "(404): model 'big' not found."),
        (["<html>Bad gateway</html>"], {"status": 502}, "(502): <html>Bad gateway</html>."),
        ([], {"status": 301}, "(301): no reason."),
        (['data: {"error": "overloaded"}\n\n'], {}, "refused the question: overloaded."),
        (["data: {broken\n\n"], {}, "something else than an answer"),
        (["data: [1]\n\n"], {}, "something else than an answer"),
        (['data: {"choices": {"a": 1}}\n\n'], {}, "something else than an answer"),
        (["hello"], {"kind": "text/plain"}, "something else than an answer"),
        ([DONE], {}, "returned an empty answer"),
        ([f": {'x' * 2**20}\n\n"] * 3, {}, "more than an answer can have"),
    ],
)
def test_what_is_no_answer_is_an_error_that_names_the_server(serve, lines, options, message):
    double = serve(*lines, **options)
    with pytest.raises(AnswerServerFailed) as error:
        last(ask(double))
    assert message in str(error.value) and str(error.value).endswith(AnswerServerFailed.hint)


def test_a_server_that_is_off_is_an_error_with_the_remedy(serve):
    double = serve()
    double.close()
    with pytest.raises(AnswerServerFailed, match=r"127\.0\.0\.1:\d+ cannot be used"):
        last(ask(double))


def test_stopping_keeps_the_text_and_closes_the_connection(serve):
    double, cancel = serve(chunk("The first words "), chunk("more "), *[chunk("x ")] * 1000), Event()
    double.hold.clear()
    answers = ask(double, cancel=cancel)
    for answer in answers:
        if answer.text:
            break
    Timer(0.2, cancel.set).start()
    answer = last(answers)
    assert answer.state == "stopped" and answer.text == "The first words"
    double.hold.set()
    assert double.ended.wait(30) and len(double.requests) == 1


def test_small_talk_and_what_cannot_be_asked_are_not_sent(serve):
    double = serve(DONE)
    assert last(ask(double, Request("Hello!", SERVER_METHOD))).text
    with pytest.raises(BadRequest):
        last(ask(double, Request(" ", SERVER_METHOD)))
    with pytest.raises(QuestionTooLong):
        last(ask(double, context=64))
    assert double.requests == []


def test_the_server_is_the_default_method_and_no_local_one():
    server = AnswerServer("https://box.example:8443/v1", "big", "secret")
    methods = [method_info(server), *list_methods()]
    assert default_method(methods).name == SERVER_METHOD and local_methods(methods) == list_methods()
    assert "box.example:8443" in server_note(methods) and not server_note(list_methods())
    assert "secret" not in repr(server)
