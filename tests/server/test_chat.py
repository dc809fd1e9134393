"""The texts of a streamed answer, of which nothing is sent twice."""

import json

import pytest

from engine.request import Answer, Request
from engine.trace import Trace
from server.chat import completion_events

QUOTE = "The crew hears the bell. [1]"


@pytest.mark.parametrize(
    ("texts", "is_quoted", "expected"),
    [
        (["The crew", "The crew hears the bell. [1]"], False, ["The crew", " hears the bell. [1]"]),
        (["The crew hears the crew hears", "The crew hears the"], False, ["The crew hears the crew hears"]),
        (["The crew. The crew.", "The crew. [1]"], False, ["The crew. The crew."]),
        (["A bell, a bell, a", QUOTE], True, ["A bell, a bell, a", f"\n\n{QUOTE}"]),
        (["A bell, a bell, a", QUOTE, QUOTE], True, ["A bell, a bell, a", f"\n\n{QUOTE}"]),
        ([f"{QUOTE} The crew", QUOTE], True, [f"{QUOTE} The crew"]),
        (["The user", "", "The", "The crew."], False, ["The user", "\n\nThe", " crew."]),
        (["A bell, a bell, a", ""], True, ["A bell, a bell, a"]),
    ],
)
def test_an_answer_that_is_cut_is_not_sent_again_and_a_quote_follows(texts, is_quoted, expected):
    request = Request(question="Who hears the bell?")
    answers = [Answer(request, Trace(), "writing", text) for text in texts[:-1]]
    answers.append(Answer(request, Trace(), "done", texts[-1], is_quoted=is_quoted))
    events = [event.removeprefix("data: ") for event in completion_events("kvscope", answers, include_usage=False)]
    deltas = [choice["delta"].get("content") for event in events[:-1] for choice in json.loads(event)["choices"]]
    assert list(filter(None, deltas)) == expected
