"""The preview of another recompute ratio under the last answer, with a backend that counts its requests."""

import json
import re
from dataclasses import replace
from types import SimpleNamespace

import gradio as gr
import pytest

from engine.trace import Trace
from store.types import Document
from tests.support.fake_backend.backend import METHODS
from tests.ui.conftest import ME
from ui.components.method_options import extra_params
from ui.pages.ask.chat import Chat
from ui.pages.ask.results import render_timing

DOCUMENT = "d" * 64  # of every source of the fake backend
OTHER_TAB = SimpleNamespace(session_hash="you")
DEFAULTS = [param.default for method in METHODS for param in extra_params(method)]
NOTHING = gr.skip()


@pytest.fixture
def page(app, backend):
    backend.stored_documents = [Document(DOCUMENT, "harbour-handbook.md", 1, None, 1, 0.0)]
    yield app.ask
    app.ask.tasks.discard(OTHER_TAB.session_hash)


def settings(ratio=20, method="cacheclip", passages=6, temperature=0, documents=(), options=DEFAULTS):
    return [method, passages, ratio, temperature, 64, False, list(documents), False, *options]


def answers(page, ratio=20, method="cacheclip", who=ME, chat=None):
    """Ask a question and stream the updates."""
    pending = page.acknowledge("why?", who)[page.pending_question]
    return page.respond(pending, chat or Chat(), False, who, *settings(ratio, method))


def answer_to(page, **chosen):
    *_, ended = answers(page, **chosen)
    return ended[page.results.answer]


def preview(page, answer, line="", who=ME, **chosen):
    return page.show_preview(answer, line, who, *settings(**chosen))


def marks(html, class_=None):
    """Return the texts of the marks with a class, or with none, in the cards."""
    cards = html.partition("<ol")[2]
    return re.findall(f'<mark class="{class_}">(.*?)</mark>' if class_ else "<mark>(.*?)</mark>", cards)


def test_moving_the_ratio_marks_other_text_and_runs_no_request(page, backend):
    backend.answer = "Nothing is quoted."
    answer = answer_to(page)
    backend.texts = ["changed"]  # a request would read this
    up, down = (preview(page, answer, ratio=ratio)[page.results.passages] for ratio in (35, 5))
    text = answer.sources[0].text
    assert marks(up)[0] == text[:20] and marks(up, "kv-added")[0] == text[20:35] and not marks(up, "kv-dropped")
    assert marks(down)[0] == text[:5] and marks(down, "kv-dropped")[0] == text[5:20] and not marks(down, "kv-added")
    assert len(backend.requests) == 1


def test_the_line_says_what_would_be_recomputed_and_when_the_answer_would_begin(page):
    answer = answer_to(page)
    line = preview(page, answer, ratio=50)[page.results.preview].replace("\u00a0", " ")
    expected = answer.preview(0.5)
    assert "50 %" in line and f"{expected.recomputed_tokens:,} of {answer.context_tokens:,} tokens" in line
    assert "734 ms" in line and "predicted" in line and 'data-act="retry"' in line


def test_a_calibrated_model_has_an_expected_kl_and_a_plot_of_all_runs_of_the_question(page, backend):
    *_, ended = answers(page)
    assert "nats" not in preview(page, ended[page.results.answer], ratio=50)[page.results.preview]
    assert ended[page.results.runs].visible is False
    backend.max_kl = 0.2
    chat = Chat()
    for ratio in (20, 40):
        *_, ended = answers(page, ratio, chat=chat)
        chat = ended[page.chat]
    assert "0.100 nats" in preview(page, ended[page.results.answer], ratio=50)[page.results.preview]
    plot = ended[page.results.runs]
    predicted, runs = json.loads(plot.value["plot"])["data"]
    assert plot.visible and runs["x"] == [turn.ttft_ms for turn in chat.turns]
    assert runs["y"] == pytest.approx([turn.expected_kl for turn in chat.turns])
    assert len(predicted["x"]) == 6 and predicted["y"][-1] == 0


def test_back_at_the_answers_own_ratio_the_preview_disappears(page):
    answer = answer_to(page)
    shown = preview(page, answer, ratio=50)
    back = preview(page, answer, line=shown[page.results.preview], ratio=20)
    assert back[page.results.preview] == "" and "kv-added" in shown[page.results.passages]
    assert "kv-added" not in back[page.results.passages] and marks(back[page.results.passages])
    assert preview(page, answer, ratio=20) == NOTHING


@pytest.mark.parametrize(
    "other",
    [{"method": "full"}, {"method": "cacheblend"}, {"passages": 3}, {"documents": ["e" * 64]}],
)
def test_settings_that_change_the_prompt_or_the_method_have_no_preview(page, other):
    answer = answer_to(page)
    assert preview(page, answer, ratio=50, **other) == NOTHING
    assert preview(page, answer, line="shown", ratio=50, **other)[page.results.preview] == ""
    assert preview(page, answer, ratio=50, temperature=1)[page.results.preview]


def test_a_method_that_selects_while_it_runs_says_so_and_changes_no_mark(page):
    answer = answer_to(page, method="cacheblend")
    shown = preview(page, answer, method="cacheblend", ratio=50)
    assert "CacheBlend" in shown[page.results.preview] and 'data-act="retry"' in shown[page.results.preview]
    before = preview(page, answer, "shown", method="cacheblend", ratio=20)[page.results.passages]
    assert shown[page.results.passages] == before


def test_a_method_without_a_ratio_has_no_preview(page):
    assert preview(page, answer_to(page, method="epic"), method="epic", ratio=50) == NOTHING


def test_a_deleted_document_ends_the_preview(page, backend):
    answer = answer_to(page)
    assert preview(page, answer, ratio=50)
    backend.delete(DOCUMENT)
    assert preview(page, answer, ratio=50) == NOTHING
    assert preview(page, answer, "shown", ratio=50)[page.results.preview] == ""


def test_while_an_answer_is_generated_nothing_is_previewed_and_the_last_preview_is_gone(page):
    answer = answer_to(page)
    running = answers(page)
    assert preview(page, answer, ratio=50) == NOTHING
    begun = next(running)
    assert begun[page.results.answer] is None and begun[page.results.preview] == ""
    *_, ended = running
    assert preview(page, ended[page.results.answer], ratio=50)[page.results.preview]


def test_an_answer_stopped_before_its_prefill_has_no_preview_and_a_later_one_has(page, backend):
    running = answers(page)
    next(running)
    page.tasks.stop(ME)
    *_, ended = running
    assert preview(page, ended[page.results.answer], ratio=50) == NOTHING
    backend.pause_after_words = 2
    running = answers(page)
    next(update for update in running if "recomputed (" in update.get(page.results.passages, ""))
    page.tasks.stop(ME)
    *_, ended = running
    assert ended[page.results.answer].state == "stopped"
    assert preview(page, ended[page.results.answer], ratio=50)[page.results.preview]


def test_the_kept_answer_has_no_trace_that_refers_to_the_model(page, monkeypatch):
    kept = Trace()
    monkeypatch.setattr(Trace, "snapshot", lambda trace: kept)
    assert answer_to(page).trace is kept


def test_a_chat_that_the_browser_stored_has_no_preview(page):
    *_, ended = answers(page)
    opened = page.results.show_chat(ended[page.chat])
    assert opened[page.results.answer] is None and opened[page.results.preview] == ""
    assert preview(page, None, ratio=50) == NOTHING


def test_two_tabs_preview_their_own_answers(page):
    mine, yours = answer_to(page, ratio=20), answer_to(page, ratio=60, who=OTHER_TAB)
    running = answers(page)
    next(running)
    assert preview(page, mine, ratio=60) == NOTHING
    assert "kv-dropped" in preview(page, yours, who=OTHER_TAB, ratio=20)[page.results.passages]
    running.close()


def test_a_quoted_answer_is_shown_before_the_recomputation_so_no_time_is_predicted(page):
    answer = answer_to(page)
    answer.trace.ttft_ms = 1.0
    line = preview(page, answer, ratio=50)[page.results.preview]
    assert "after the answer is shown" in line and "predicted" not in line


def test_exact_passages_say_why_nothing_is_recomputed(page):
    answer = answer_to(page)
    found = answer.preview(0)
    answer.preview = lambda ratio: replace(found, is_exact=True)
    assert "exact" in preview(page, answer, ratio=50)[page.results.preview]
    assert "exact" not in preview(page, answer_to(page), ratio=50)[page.results.preview]


def test_document_text_stays_text_in_a_preview(page, backend):
    backend.texts = ["<script>alert(1)</script>" * 9]
    html = preview(page, answer_to(page), ratio=50)[page.results.passages]
    assert "<script" not in html and "&lt;scr" in html


def test_every_setting_and_a_changed_list_of_documents_refresh_the_preview(app):
    events = [fn for fn in app.blocks.fns.values() if fn.fn and fn.name == "show_preview"]
    triggers = {target for fn in events for target in fn.targets}
    watched = {(each._id, "change") for each in app.ask.composer.inputs()}
    assert watched | {(app.ask.results.preview._id, "input")} <= triggers  # the browser sends the latter
    refresh = [fn for fn in app.blocks.fns.values() if fn.js and "refreshPreview" in str(fn.js)]
    assert [fn.targets for fn in refresh] == [[(app.documents.document_list._id, "change")]]
    assert not any(fn.queue for fn in events)
    assert not any((app.ask.results.answer._id, "change") in fn.targets for fn in app.blocks.fns.values())


def test_ask_again_is_retry(app):
    retries = [target for fn in app.blocks.fns.values() if fn.name == "retry" for target in fn.targets]
    assert {each._id for each in (app.ask.results.reply, app.ask.results.preview)} == {each for each, _ in retries}


def test_results_refer_to_components(page):
    assert all(isinstance(each, gr.blocks.Block) for each in page.results)


def reply_of(page, **chosen):
    *_, ended = answers(page, **chosen)
    return ended[page.results.reply].replace("\u00a0", " ")


def test_under_an_answer_is_full_prefills_time_estimated_or_measured_if_the_chat_has_it(page, backend):
    estimated = answer_to(page, ratio=20).preview(1.0).ttft_ms
    assert f"full prefill: {estimated / 1000:.2f} s (estimated for this machine)" in reply_of(page, ratio=20)
    *_, full = answers(page, method="full")
    assert "full prefill:" not in full[page.results.reply]
    chat = replace(full[page.chat], turns=(replace(full[page.chat].turns[0], whole=True, ttft_ms=2500.0),))
    assert "full prefill: 2.50 s (measured in this chat)" in reply_of(page, ratio=20, chat=chat)


def test_a_short_prompt_is_named_as_the_reason_for_a_small_gain(page):
    answer = answer_to(page, ratio=20)
    short, long = (replace(answer, context_tokens=tokens) for tokens in (900, 9000))
    assert "The prompt is short" in render_timing(short, 1.4 * answer.trace.ttft_ms)
    assert "The prompt is short" not in render_timing(short, 1.6 * answer.trace.ttft_ms)
    assert "The prompt is short" not in render_timing(long, 1.4 * answer.trace.ttft_ms)


def test_an_answer_of_quotes_is_not_compared_it_waited_for_no_prefill(page):
    answer = answer_to(page, ratio=20)
    answer.trace.stages = [stage for stage in answer.trace.stages if stage.name != "recompute"]
    assert render_timing(answer, 9000.0) is None


def test_an_engine_of_a_cluster_is_named_as_text(page):
    answer = replace(answer_to(page, ratio=20), engine="<b>2</b>")
    line = render_timing(answer, 9000.0)
    assert "Answered by the engine &lt;b&gt;2&lt;/b&gt;; first token after" in line and "full prefill" not in line
