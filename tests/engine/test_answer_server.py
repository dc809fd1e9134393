"""Answers by a model on another server: what is sent, what becomes of its stream, and each way it can fail."""

import re
from dataclasses import replace
from threading import Event, Timer
from threading import enumerate as threads
from time import sleep
from types import SimpleNamespace

import pytest

from engine.answer_server import SYSTEM, AnswerServer, _messages, _without_thoughts, ask_server, method_info
from engine.errors import AnswerServerFailed, BadRequest, QuestionTooLong
from engine.method import SERVER_METHOD, default_method, local_methods, server_note
from engine.request import ChatTurn, Quote, Request
from engine.strategies import list_methods
from tests.support.completion_server import CompletionServer, chunk
from tests.support.doubles import TEXTS, last, make_engine, make_hit

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
        (["\n</thi", "nk>\n\nFour"], "Four"),
        ([], ""),
    ],
)
def test_reasoning_before_the_answer_is_left_out(pieces, text):
    assert "".join(_without_thoughts(iter(pieces))) == text


def test_an_answer_starts_again_after_reasoning_that_the_servers_template_began(serve):
    sentence = TEXTS["ferry"].split(". ")[0] + "."
    pieces = ["The user asks. ", "The user", " says so.\n", "</th", "ink>\n", "\n", *re.findall(r"\S+ ?", sentence)]
    double = serve(*map(chunk, pieces), DONE)
    texts = [answer.text for answer in (replace(answer) for answer in ask(double))]
    assert texts[-1] == f"{sentence} [1]"
    again = len(texts) - texts[::-1].index("")
    assert "The user asks. The user says so." in texts[:again]
    assert all(texts[-1].startswith(text) for text in texts[again:])
    mentioned = "The mark </think> ends it."
    assert last(ask(serve(chunk(mentioned), DONE))).text == mentioned
    with pytest.raises(AnswerServerFailed, match="wrote no answer"):
        last(ask(serve(chunk("So.\n</think>"), DONE)))


@pytest.mark.parametrize(
    "lines, options, message",
    [
        (['{"error": {"message": "model \'big\' not found"}}'], {"status": 404}, "(404): model 'big' not found."),
        (["<html>Bad gateway</html>"], {"status": 502}, "(502): <html>Bad gateway</html>."),
        ([], {"status": 301}, "(301): no reason."),
        (['data: {"error": "overloaded"}\n\n'], {}, "refused the question: overloaded."),
        (["data: {broken\n\n"], {}, "returned an invalid response"),
        (["data: [1]\n\n"], {}, "returned an invalid response"),
        (['data: {"choices": {"a": 1}}\n\n'], {}, "returned an invalid response"),
        (["hello"], {"kind": "text/plain"}, "returned an invalid response"),
        ([DONE], {}, "wrote no answer."),
        ([chunk("<think>so", "length"), DONE], {}, "wrote no answer within 256 tokens: allow a longer answer."),
        (['{"error": {"message": "key secret is wrong"}}'], {"status": 401}, "refused the key (401)."),
        (['{"error": {"message": "secret \\ud83d"}}'], {"status": 400}, "(400): *** \ufffd."),
        (['data: {"choices": [{"delta": {"content": 5}}]}\n\n'], {}, "returned an invalid response"),
        (["data: " + "[" * 100_000 + "\n\n"], {}, "returned an invalid response"),
        ([chunk("x")], {"encoding": "br"}, "compresses its answer without being asked"),
        ([f": {'x' * 2**20}\n\n"] * 3, {}, "more than an answer can have"),
    ],
)
def test_what_is_no_answer_is_an_error_that_names_the_server(serve, lines, options, message):
    double = serve(*lines, **options)
    with pytest.raises(AnswerServerFailed) as error:
        last(ask(double, key="secret"))
    assert "secret" not in str(error.value)
    assert message in str(error.value) and str(error.value).endswith(AnswerServerFailed.hint)


def test_an_answer_in_parts_with_halves_of_characters_that_is_broken_off_or_too_long(serve):
    parts = '{"choices": [{"delta": {"content": [{"type": "thinking"}, {"type": "text", "text": "Four"}]}}]}'
    halves = [chunk(half) for half in (" \ud83d", "\ude00.", "\ud83d")]
    answer = last(ask(serve(f"data: {parts}\n\n", *halves)))
    assert answer.text == "Four \U0001f600." and answer.truncated
    many = serve(*(chunk(f"{number} ") for number in range(50)), DONE)
    answer = last(ask(many, Request(ASK.question, SERVER_METHOD, max_new_tokens=7)))
    assert answer.text == "0 1 2 3 4 5 6" and answer.truncated and answer.new_tokens == 7


def test_a_question_that_is_stopped_while_the_server_reads_cuts_the_connection(serve):
    double, cancel = serve(": wait\n\n", chunk("late"), DONE), Event()
    double.hold.clear()
    answers = ask(double, cancel=cancel)
    next(answers), next(answers)
    Timer(0.3, cancel.set).start()
    assert last(answers).state == "stopped"
    for _ in range(100):
        if not any(thread.name == "answer server" for thread in threads()):
            break
        sleep(0.05)
    assert not any(thread.name == "answer server" for thread in threads())


def test_options_are_refused_and_the_differences_of_two_documents_are_sent(serve):
    double = serve(chunk("Fares."), DONE)
    with pytest.raises(BadRequest, match="no options"):
        last(ask(double, Request(ASK.question, SERVER_METHOD, options={"tokens": 3})))
    quote = Quote(1, 0, 5, "Two euros.", "a.txt")
    hits = tuple(make_hit(name, TEXTS[name]) for name in ("ferry", "ferry", "tern"))
    prepared = SimpleNamespace(
        hits=hits, texts=("one", "two", "three"), changes=((quote,),), standalone_question="What changed?"
    )
    text = _messages(prepared)[1]["content"]
    assert text.count("ferry.txt:") == 1 and "Only in a.txt:" in text and text.endswith("What changed?")


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
