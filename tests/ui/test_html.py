"""Data never becomes markup, in any part of the UI."""

from dataclasses import replace
from html.parser import HTMLParser

import pytest

from backend.interface.backend import Status, TierUsage
from backend.interface.library import IngestProgress
from engine.method import MethodInfo, MethodParam
from engine.request import Answer, Quote, Request, Source, TextSpan
from engine.trace import Trace
from store.types import Document
from tests.support.fake_backend.backend import METHODS, RATIO
from ui.components.document_sidebar import render_document_list, render_status
from ui.components.uploads import render_progress
from ui.figures.answer_metrics import render_metrics
from ui.html import escape, join, tag
from ui.pages.ask import passages
from ui.pages.ask import results as reply
from ui.pages.ask.chat import Chat, Turn, TurnSource
from ui.pages.ask.evidence import render_evidence
from ui.pages.ask.history import ChatSummary, render_chat_bar
from ui.pages.ask.results import render_history, render_turns

HOSTILE = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror='alert(1)'>",
    "</div></article><h1>mine now",
    "&lt;b&gt; is what the document says",
    "$$\\frac{1}{2}$$ ${1+1} {{this}} `code` **bold** [1](javascript:alert(1))",
    "tab\there, bell\x07, escape\x1b[31m, null\x00",
    "photo\u202egnp.exe",
    "lone \ud800 surrogate",
]
OURS = {
    "article",
    "h2",
    "h3",
    "p",
    "div",
    "span",
    "em",
    "ul",
    "ol",
    "li",
    "section",
    "mark",
    "bdi",
    "small",
    "button",
    "svg",
    "path",
}
OURS |= {
    "svg",
    "path",
    "details",
    "summary",
    "dl",
    "dt",
    "dd",
    "table",
    "caption",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "nav",
    "form",
    "input",
    "strong",
    "blockquote",
}


class Reader(HTMLParser):
    """Elements, attributes and text of HTML, by an independent parser."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.elements, self.attributes, self.text, self.depth = [], [], "", 0
        self.feed(str(markup))  # slices of Markup would escape what is added to them
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append(tag)
        self.attributes.extend(name for name, _ in attrs)
        self.depth += tag != "input"

    def handle_endtag(self, tag):
        self.depth -= 1

    def handle_data(self, data):
        self.text += data


def source(text: str) -> Source:
    return Source(1, text, text, 3, 0.5, True, 10, text, 5, (TextSpan(text, True), TextSpan(text, False)), cited=True)


def answer(text: str) -> Answer:
    return Answer(Request(text), Trace(ttft_ms=80.0), "done", text, (source(text),), 10, 5, notes=(text,))


def views(bad: str) -> dict[str, str]:
    document = Document(bad, bad, 10, 2, 3, 0.0)
    method = MethodInfo(bad, bad, bad, (MethodParam("word", bad, "", bad, choices=("", bad)),))
    quote = Quote(1, 0, 9, bad, bad)
    found = replace(answer(bad), confidence=0.3, quotes=(quote,), alternatives=(quote,))
    turn = Turn.from_answer(replace(found, request=Request(bad, options={"word": bad})), method)
    return {
        "reply": reply.render_answer(found),
        "waiting": reply.render_waiting(bad),
        "error": reply.render_error(bad, bad, answer(bad)),
        "thread": render_turns([turn]),
        "chatbar": render_chat_bar(Chat("1", bad, 0.0, (turn,)), [ChatSummary("1", bad, 0.0, 1)]),
        "passages": passages.render_passages(answer(bad)),
        "numbers": render_metrics(answer(bad), method),
        "history": render_history([turn]),
        "documents": render_document_list([document], [TierUsage("host", 5, 9)]),
        "pending delete": render_document_list([document], pending_delete=bad),
        "progress": render_progress(
            [IngestProgress(bad, "failed", 0, 0, bad), IngestProgress(bad, "parsed", 0, 1, bad)]
        ),
        "status": render_status(Status(ready=False, message=bad, failed=True)),
    }


@pytest.mark.parametrize("bad", HOSTILE)
@pytest.mark.parametrize("view", views(""))
def test_hostile_data_adds_no_element_and_no_handler(view, bad):
    shown, plain = Reader(views(bad)[view]), Reader(views("plain")[view])
    assert shown.depth == 0 and set(shown.elements) <= OURS
    extra = {"em"} if "[1]" in bad else set()  # what a citation quotes is ours
    assert set(shown.elements) - set(plain.elements) <= extra
    assert not [name for name in shown.attributes if name.startswith("on")]
    assert not set("\x00\x07\x1b\u202e") & set(views(bad)[view])


@pytest.mark.parametrize("bad", HOSTILE[:5])
def test_hostile_data_is_read_back_unchanged(bad):
    assert bad in Reader(passages.render_passages(replace(answer(bad), text=f"{bad} [1]"))).text
    assert bad in Reader(render_document_list([Document("0", bad, 1, None, 1, 0.0)])).text


def test_unprintable_characters_are_replaced_and_right_to_left_text_is_kept():
    assert escape("a\x07\u202eb\r\nc\td") == "a\ufffd\ufffdb\nc\td"
    assert escape("\u05e9\u05dc\u05d5\u05dd \u202b\u0645\u202c") == "\u05e9\u05dc\u05d5\u05dd \u202b\u0645\u202c"


def test_markup_is_escaped_in_attributes_but_not_as_a_child():
    bold = tag("b", "&")
    assert tag("p", bold, title=bold) == '<p title="&lt;b&gt;&amp;amp;&lt;/b&gt;"><b>&amp;</b></p>'


def test_a_tag_escapes_children_and_attributes_and_leaves_out_what_is_none():
    element = tag("p", "<", tag("b", "&"), None, title='"', hidden=None, open=True)
    assert element == '<p title="&#34;" open="">&lt;<b>&amp;</b></p>'
    assert join("a", None, tag("br")) == "a<br>"


def test_an_answer_that_is_a_quote_says_where_it_is_from_and_another_shows_its_quote():
    found = replace(answer("a.md"), quotes=(Quote(1, 0, 9, "It is 12.", "a.md"),), confidence=0.9)
    quoted = render_evidence(replace(found, is_quoted=True), found.sources)
    assert "<bdi>a.md</bdi><span>, page 3</span>" in quoted and "It is 12." not in quoted
    shown = render_evidence(found, found.sources)
    assert "It is 12." in shown.partition("<blockquote")[2] and "a.md" not in shown.partition("<blockquote")[0]


def test_what_else_may_answer_is_shown_with_its_source_below_an_answer_to_be_checked():
    other = Quote(2, 0, 9, "It is <b>13</b>.", "a.md")
    unsure = replace(answer("a.md"), quotes=(Quote(1, 0, 9, "It is 12.", "a.md"),), confidence=0.3, is_quoted=True)
    sources = unsure.sources[0], replace(unsure.sources[0], rank=2)
    shown = render_evidence(replace(unsure, alternatives=(other,)), sources)
    head, _, others = shown.partition("Other possible answers:")
    assert "Check the source" in head and "<blockquote" not in head
    assert "It is &lt;b&gt;13&lt;/b&gt;." in others and 'data-rank="2"' in others and "a.md" in others
    assert "Other possible answers" not in render_evidence(unsure, sources)
    assert "a.md" in render_evidence(replace(unsure, alternatives=(other,)), ())  # of a chat that was changed by hand


def test_an_earlier_answer_keeps_its_evidence():
    quotes = {"quotes": (Quote(1, 0, 9, "12", "a.md"),), "alternatives": (Quote(1, 9, 19, "13", "a.md"),)}
    for is_quoted in (False, True):
        found = replace(answer("a.md"), confidence=0.3, is_quoted=is_quoted, **quotes)
        turn = Turn.from_answer(found, METHODS[0])
        assert render_evidence(turn, turn.passages) == render_evidence(found, found.sources)


def test_only_shown_passages_are_linked():
    sources = [TurnSource(1, "a.md", None, "chunk", True)]
    bold = reply.link_citations("It is <b> blue. [1]", sources, "<b>")
    assert (
        bold.startswith("It is <strong>&lt;b&gt;</strong> blue. <button")
        and 'data-context="It is &lt;b&gt; blue."' in bold
    )
    linked = reply.link_citations("yes [1], no [7], 2024 [a]", sources)
    assert linked.count("<button ") == 1 and 'data-id="chunk"' in linked and "[7]" in linked


def test_elements_do_not_grow_with_tokens():
    tokens = [TextSpan(f"word{n} ", n < 500) for n in range(1000)]
    assert passages.mark_recomputed(tokens).count("<") == 2
    joined = "".join(piece.text for piece in tokens)
    assert Reader(passages.mark_recomputed(tokens)).text == joined


def test_full_prefill_says_that_nothing_was_reused():
    full = replace(answer("x"), sources=(replace(source("x"), tier="none"),))
    assert "no cache" in passages.render_passages(full)
    reading = passages.render_passages(replace(full, trace=Trace()))
    assert "no cache" not in reading and "recomputed (" not in reading
    assert "0.0" not in render_metrics(replace(full, trace=Trace()), MethodInfo("", "", "", ()))


def test_files_that_have_ended_are_one_summary_with_the_errors_which_can_be_dismissed_at_the_end():
    failed, done = IngestProgress("a", "failed", 0, 0, "It is empty."), IngestProgress("b", "done", 1, 1)
    shown = render_progress([failed, done, done])
    assert "2 of 3\u00a0files ready" in shown and shown.count("<li") == shown.count('data-act="dismiss"') == 1
    assert "<bdi>a</bdi>: <span>It is empty.</span>" in shown
    assert "3\u00a0files ready" in render_progress([done] * 3) and "kv-error" not in render_progress([done] * 3)
    running = render_progress([failed, IngestProgress("c", "prefilled", 3, 8)])
    assert "ready<span> 3/8</span>" in running and running.count("kv-complete") == 3 and "dismiss" not in running


def test_an_answer_stopped_before_its_first_token_says_so_and_has_nothing_to_copy():
    stopped = reply.render_answer(replace(answer(""), state="stopped"))
    assert "Stopped before the first token." in stopped and "Copy" not in stopped
    assert "Copy" not in reply.render_answer(replace(answer(""), state="done"))
    assert "The answer is incomplete." in (shown := reply.render_answer(replace(answer("So"), state="stopped")))
    assert "Copy" in shown


def test_the_passages_say_in_which_order_they_are():
    assert "in the order in which the model reads them" in passages.render_passages(answer("x"))


def test_the_history_keeps_the_last_ten_newest_first():
    turns = [replace(Turn.from_answer(answer("x"), METHODS[0]), question=f"question {n}") for n in range(12)]
    shown = render_history(turns)
    assert shown.count("<tbody>") == 1 and shown.count('scope="row"') == 10
    assert shown.index("question 11") < shown.index("question 2<") and "question 1<" not in shown


def test_the_target_ratio_is_shown_only_if_the_method_has_one():
    without, with_ratio = MethodInfo("epic", "EPIC", "", ()), MethodInfo("cacheclip", "CacheClip", "", (RATIO,))
    assert "target 20" in render_metrics(answer("x"), with_ratio)
    metrics = render_metrics(answer("x"), without)
    assert "EPIC has no ratio" in metrics and "target" not in metrics and "windows" not in metrics
    assert (
        Turn.from_answer(answer("x"), without).nominal is None
        and Turn.from_answer(answer("x"), with_ratio).nominal == 0.2
    )
    assert "20\u00a0%" not in render_history([Turn.from_answer(answer("x"), without)])


def test_the_history_says_which_options_were_unusual():
    epic = next(method for method in METHODS if method.name == "epic")
    answers = [Answer(Request("x", "epic", options={"tokens": tokens}), Trace(), "stopped") for tokens in (16, 32)]
    shown = [Reader(render_history([Turn.from_answer(each, epic)])).text for each in answers]
    assert "EPIC · Tokens at each start: 16 · stopped" in shown[0] and "EPIC · stopped" in shown[1]


def test_the_status_shows_a_progress_bar_only_while_loading():
    assert 'value="0.40"' in render_status(Status(ready=False, message="Downloading the model", progress=0.4))
    assert "<progress" not in render_status(Status(ready=True, message="SmolLM2"))
