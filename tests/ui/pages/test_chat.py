"""Chats as data: validation of what browsers stored, history, and export."""

import io
import json
import re
from dataclasses import asdict, replace

import docx
import pytest

from engine.request import Quote
from ui.pages.ask.chat import Chat, Turn, TurnSource
from ui.pages.ask.history import parse_summaries, render_chat_bar
from ui.pages.ask.results import render_turns
from ui.pages.ask.word_export import chat_as_docx

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
    passages=(TurnSource(1, "a.md", None, "a-0", False), TurnSource(2, "b.pdf", 3, "b-4", True)),
)


UNSURE = replace(
    TURN, confidence=0.14, quotes=(Quote(1, 0, 7, "Ada Bo."),), alternatives=(Quote(2, 0, 9, "| Owner: Cy |", "b.pdf"),)
)


def chat(*turns):
    saved = Chat("c1")
    for turn in turns:
        saved = saved.add(turn)
    return saved


def test_a_chat_is_named_by_its_first_question_that_is_shown():
    replaced, shown = replace(TURN, question="foo", replaced=True), replace(TURN, question="bar")
    assert chat(replaced, shown).name == "bar" and chat(replaced).name == "foo" and chat().name == "New chat"


def test_a_chat_survives_the_round_trip_through_json():
    whole = chat(TURN, replace(UNSURE, question="And then?", ttft_ms=None))
    assert Chat.from_saved(json.loads(json.dumps(asdict(whole)))) == whole
    assert Chat.from_saved(json.loads(whole.as_json())) == whole


@pytest.mark.parametrize("broken", [None, 7, "x", [], {}, {"id": 1}, {"id": "a", "turns": [{"question": "q"}]}])
def test_invalid_data_becomes_a_new_chat(broken):
    assert Chat.from_saved(broken).turns == ()
    assert Chat.from_saved(broken).id != Chat.from_saved(broken).id
    assert parse_summaries(broken) == []
    assert parse_summaries([broken, {"id": "a", "title": "t", "at": "x", "turns": 1}]) == []


def test_retrying_replaces_the_last_visible_turn_and_keeps_its_metrics():
    saved = chat(TURN, replace(TURN, question="And then?"))
    again = saved.without_last().add(replace(TURN, question="And now?"))
    assert [turn.question for turn in again.visible_turns] == ["Who owns\nit?", "And now?"]
    assert len(again.turns) == 3
    assert [turn.question for turn in again.without_last().without_last().visible_turns] == []
    assert Chat("c1").without_last() == Chat("c1")


def test_the_history_of_a_new_question_is_the_last_three_visible_turns_with_their_passages():
    saved = chat(*(replace(TURN, question=f"q{n}") for n in range(5)))
    history = saved.without_last().recent_history()
    assert [turn.question for turn in history] == ["q1", "q2", "q3"]
    assert history[0].chunk_ids == ("a-0", "b-4")


def test_the_ttft_of_full_prefill_is_that_of_the_same_question_and_passages():
    full = replace(TURN, whole=True, ttft_ms=900.0)
    other = replace(full, question="And then?", ttft_ms=1.0)
    elsewhere = replace(full, passages=full.passages[:1], ttft_ms=2.0)
    assert chat(full, other, elsewhere, TURN).full_ttft_ms(TURN) == 900.0
    assert chat(other, elsewhere, TURN).full_ttft_ms(TURN) is None


def test_the_name_of_a_chat_is_its_title_or_its_first_question():
    assert Chat("c1").name == "New chat"
    assert chat(TURN).name == "Who owns it?"
    assert replace(chat(TURN), title="Boats").name == "Boats"


def test_markdown_has_every_visible_turn_with_its_sources():
    text = chat(TURN, replace(TURN, question="And then?", text="", passages=())).as_markdown()
    assert text.startswith("# Who owns it?\n")
    assert "## Who owns it?\n\nAda [1]." in text and "- [2] b.pdf, page 3" in text
    assert "*The model returned an empty answer.*" in text and "412" in text


def test_a_word_document_has_every_visible_turn_with_its_sources_as_plain_text():
    hostile = replace(TURN, question=HOSTILE, text=f"{HOSTILE}\x00\x07", replaced=False)
    whole = replace(chat(TURN, replace(TURN, replaced=True, text="old"), hostile), title="<w:t>&amp;\x1f")
    paragraphs = docx.Document(io.BytesIO(chat_as_docx(whole))).paragraphs
    texts = [each.text for each in paragraphs]
    assert (
        texts[0] == "<w:t>&amp;\ufffd" and "Ada [1]." in texts and "[2] b.pdf, page 3" in texts and "old" not in texts
    )
    assert next(each.text for each in paragraphs if each.style.name == "Heading 1") == "Who owns it?"
    assert "- two" in texts and not any("\x00" in text for text in texts)


def test_an_earlier_answer_to_be_checked_still_says_so_and_what_else_may_answer():
    shown = render_turns([UNSURE])
    assert "Check the source" in shown and "14\u00a0% confidence" in shown and "Cy" in shown
    assert 'data-id="b-4"' in shown.partition("Other possible answers:")[2]
    assert "kv-evidence" not in render_turns([TURN])


def test_a_downloaded_chat_has_what_else_may_answer_and_how_certain_the_answer_is():
    text = chat(UNSURE).as_markdown()
    assert "Other possible answers:\n\n- Owner: Cy [2]" in text and "14 % confidence, check the source" in text
    texts = [each.text for each in docx.Document(io.BytesIO(chat_as_docx(chat(UNSURE)))).paragraphs]
    assert "Owner: Cy [2]" in texts and any("check the source" in each for each in texts)
    sure = replace(UNSURE, confidence=0.9, alternatives=())
    assert "check" not in chat(sure).as_markdown() and "Other possible" not in chat(sure).as_markdown()


def test_an_answer_as_a_document_has_the_question_and_the_cited_sources():
    text = TURN.as_document()
    assert text.startswith("# Who owns it?\n\nAda [1].\n\nSources:\n\n- [2] b.pdf, page 3")
    assert [source.rank for source in TURN.passages if not source.cited] == [1] and "- [1]" not in text
    assert "Sources" not in replace(TURN, passages=()).as_document()


def test_a_turn_that_was_stopped_before_its_first_token_says_so_and_claims_no_time():
    turn = replace(TURN, text="", stopped=True, realised=None, ttft_ms=None)
    assert "Stopped before the first token." in render_turns([turn])
    assert "*Stopped before the first token.*" in chat(turn).as_markdown()
    assert turn.metrics_line == "CacheClip · stopped"


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


def test_markdown_escapes_markup_in_data_and_keeps_citations():
    name = "[a](http://evil) <b>b</b>.md"
    turn = replace(
        TURN, question=HOSTILE, text=HOSTILE, method="*m*", passages=(TurnSource(1, name, None, "a-0", True),)
    )
    text = replace(chat(turn), title=HOSTILE).as_markdown()
    assert text.startswith("# \\!\\[x\\](http://evil/?q) \\<img src=x\\> \\[1\\](http://evil) [2] \\| \\&lt;")
    assert [each.split(" ")[0] for each in text.splitlines() if each.startswith(("#", "-"))] == ["#", "##", "-"]
    assert "\n\\# Forged\n\\[1\\]: http://evil\n\\---\n1\\. one\n\\- two\n\\+ three\n\\> four\n" in text
    assert "- [1] \\[a\\](http://evil) \\<b\\>b\\</b\\>.md" in text and "*\\*m\\*" in text
    assert not re.search(r"(?<!\\)[<`!$&|]", text)


def test_a_standalone_question_includes_the_questions_it_refers_to():
    saved = chat(*(replace(TURN, question=asked) for asked in ("Who built the old tower?", "When?", "And why?")))
    assert saved.standalone_question() == "Who built the old tower? When? And why?"
    assert (
        chat(TURN, replace(TURN, question="Who built the old tower?")).standalone_question()
        == "Who built the old tower?"
    )


def test_a_chat_keeps_a_hundred_turns_and_drops_replaced_ones_first():
    saved = chat(*(replace(TURN, question=f"q{n}") for n in range(110)))
    assert len(saved.turns) == 100 and saved.turns[0].question == "q10" and saved.turns[-1].question == "q109"
    saved = chat(*(replace(TURN, question=f"q{n}", replaced=50 <= n < 60) for n in range(110)))
    assert len(saved.turns) == 100 and saved.visible_turns == list(saved.turns) and saved.turns[0].question == "q0"


def test_a_full_chat_shows_a_warning_before_it_drops_its_oldest_question():
    saved = chat(*(replace(TURN, question=f"q{number}") for number in range(99)))
    assert "replaces the oldest" not in render_chat_bar(saved, [])
    assert "replaces the oldest" in render_chat_bar(saved.add(TURN), [])
    assert "switched off" in render_chat_bar(saved.add(TURN), [], "off")
