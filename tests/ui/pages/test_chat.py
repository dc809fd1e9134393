"""Chats as data: what a browser gives back is checked, what is exported can be read."""

import json
import re
from dataclasses import replace

import pytest

from ui.pages.ask.chats.chat import Chat
from ui.pages.ask.chats.chat_bar import Listed, chatbar
from ui.pages.ask.chats.turn import Read, Turn

TURN = Turn(
    question="Who owns\nit?",
    text="Ada [1].",
    stopped=False,
    method="CacheClip",
    options=(),
    nominal=0.2,
    realised=0.18,
    ttft_ms=412.0,
    tokens_per_second=30.0,
    passages=(Read(1, "a.md", None, "a-0", False), Read(2, "b.pdf", 3, "b-4", True)),
)


def chat(*turns):
    made = Chat("c1")
    for number, turn in enumerate(turns):
        made = made.add(turn, clock=lambda number=number: float(number))
    return made


def test_a_chat_comes_back_from_json_as_it_was():
    whole = chat(TURN, replace(TURN, question="And then?", ttft_ms=None))
    assert Chat.of(json.loads(json.dumps(whole.as_dict()))) == whole
    assert Chat.of(json.loads(whole.as_json())) == whole


@pytest.mark.parametrize("broken", [None, 7, "x", [], {}, {"id": 1}, {"id": "a", "turns": [{"question": "q"}]}])
def test_what_is_not_a_chat_becomes_a_new_one(broken):
    assert Chat.of(broken).turns == ()
    assert Chat.of(broken).id != Chat.of(broken).id
    assert Listed.all(broken) == []
    assert Listed.all([broken, {"id": "a", "title": "t", "at": "x", "turns": 1}]) == []


def test_asking_again_replaces_the_last_shown_turn_and_keeps_its_numbers():
    made = chat(TURN, replace(TURN, question="And then?"))
    again = made.without_last().add(replace(TURN, question="And now?"))
    assert [turn.question for turn in again.shown] == ["Who owns\nit?", "And now?"]
    assert len(again.turns) == 3
    assert [turn.question for turn in again.without_last().without_last().shown] == []
    assert Chat("c1").without_last() == Chat("c1")


def test_a_new_question_leans_on_the_last_three_shown_turns_and_the_passages_as_they_stood():
    made = chat(*(replace(TURN, question=f"q{n}") for n in range(5)))
    leaned = made.without_last().earlier()
    assert [exchange.question for exchange in leaned] == ["q1", "q2", "q3"]
    assert leaned[0].passages == ("a-0", "b-4")


def test_full_prefill_is_compared_only_with_the_same_question_over_the_same_passages():
    full = replace(TURN, whole=True, ttft_ms=900.0)
    other = replace(full, question="And then?", ttft_ms=1.0)
    elsewhere = replace(full, passages=full.passages[:1], ttft_ms=2.0)
    assert chat(full, other, elsewhere, TURN).full_ttft_ms(TURN) == 900.0
    assert chat(other, elsewhere, TURN).full_ttft_ms(TURN) is None


def test_a_chat_is_called_by_its_title_else_its_first_question():
    assert Chat("c1").name == "New chat"
    assert chat(TURN).name == "Who owns it?"
    assert replace(chat(TURN), title="Boats").name == "Boats"


def test_markdown_has_every_shown_turn_with_its_sources():
    text = chat(TURN, replace(TURN, question="And then?", text="", passages=())).as_markdown()
    assert text.startswith("# Who owns it?\n")
    assert "## Who owns it?\n\nAda [1]." in text and "- [2] b.pdf, page 3" in text
    assert "*No answer was written.*" in text and "412" in text


HOSTILE = """![x](http://evil/?q) <img src=x> [1](http://evil) [2] | &lt; $x$
# Forged
[1]: http://evil
---
  1. one
- two
+ three
> four
```
=====
    five\r\x0b# six"""


def test_markdown_shows_markup_of_others_as_text_and_citations_as_they_are():
    name = "[a](http://evil) <b>b</b>.md"
    turn = replace(TURN, question=HOSTILE, text=HOSTILE, method="*m*", passages=(Read(1, name, None, "a-0", True),))
    text = replace(chat(turn), title=HOSTILE).as_markdown()
    assert text.startswith("# \\!\\[x\\](http://evil/?q) \\<img src=x\\> \\[1\\](http://evil) [2] \\| \\&lt;")
    assert [each.split(" ")[0] for each in text.splitlines() if each.startswith(("#", "-"))] == ["#", "##", "-"]
    assert "\n\\# Forged\n\\[1\\]: http://evil\n\\---\n1\\. one\n\\- two\n\\+ three\n\\> four\n" in text
    assert "- [1] \\[a\\](http://evil) \\<b\\>b\\</b\\>.md" in text and "*\\*m\\*" in text
    assert not re.search(r"(?<!\\)[<`!$&|]", text)


def test_the_last_question_goes_elsewhere_with_what_it_leans_on():
    made = chat(*(replace(TURN, question=asked) for asked in ("Who built the old tower?", "When?", "And why?")))
    assert made.last_by_itself() == "Who built the old tower? When? And why?"
    assert chat(TURN, replace(TURN, question="Who built the old tower?")).last_by_itself() == "Who built the old tower?"


def test_a_chat_keeps_its_last_hundred_turns_and_rather_those_that_were_not_asked_again():
    made = chat(*(replace(TURN, question=f"q{n}") for n in range(110)))
    assert len(made.turns) == 100 and made.turns[0].question == "q10" and made.turns[-1].question == "q109"
    made = chat(*(replace(TURN, question=f"q{n}", replaced=50 <= n < 60) for n in range(110)))
    assert len(made.turns) == 100 and made.shown == list(made.turns) and made.turns[0].question == "q0"


def test_a_chat_says_that_it_is_full_before_it_forgets_its_oldest_question():
    made = chat(*(replace(TURN, question=f"q{number}") for number in range(99)))
    assert "takes the place of the oldest" not in chatbar(made, [])
    assert "takes the place of the oldest" in chatbar(made.add(TURN), [])
    assert "switched off" in chatbar(made.add(TURN), [], "off")
