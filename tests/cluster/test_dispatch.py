"""Questions and their engines: the same answers, another engine after a failure, and never a mixed answer."""

from dataclasses import replace
from itertools import pairwise
from threading import Event

import pytest
from ray import cloudpickle

from cluster.dispatch import STOPPED, Dispatcher, EngineInfo, EngineLost, changes_of
from engine.errors import BadRequest
from engine.request import Answer, Request
from engine.trace import Trace
from tests.support import tiny
from tests.support.doubles import TEXTS, last, make_engine

QUESTION = Request("What is the maintenance code?", "direct", max_new_tokens=12, temperature=1.0, seed=3)  # has a text
NAMES = ("ferry", "tern", "fares")


class Remote:
    """An EngineClient over an engine in this process.

    fails_at   the number of the part at which it is lost; None: never
    """

    def __init__(self, engine, fails_at=None):
        self.engine, self.fails_at, self.is_lost = engine, fails_at, False
        self.questions, self.deleted, self.cancels = [], [], {}
        self.waits_for_stop = False  # after its first part

    def info(self):
        self._check()
        return EngineInfo.of(self.engine)

    def ask(self, question):
        self._check()
        self.questions.append(question)
        cancel = self.cancels[question.id] = Event()
        answer = Answer(question.request, Trace())
        if self.waits_for_stop:
            yield answer
            assert cancel.wait(5)
        for number, changes in enumerate(changes_of(self.engine.ask(question.request, cancel, question.prepared))):
            if number == self.fails_at:
                self.is_lost = True
            self._check()
            answer = replace(answer, **cloudpickle.loads(cloudpickle.dumps(changes)))  # as Ray does
            yield answer

    def stop(self, question_id):
        self.cancels[question_id].set()

    def chunk_keys(self):
        self._check()
        return list(self.engine.cache.tree.nodes)

    def delete(self, keys):
        self._check()
        self.deleted += keys
        for key in keys:
            self.engine.cache.tree.delete(key)

    def _check(self):
        if self.is_lost:
            raise EngineLost("it was killed")


@pytest.fixture
def front():
    return make_engine(*NAMES)


def dispatch(engines):
    return Dispatcher(lambda: engines)


def ask(dispatcher, front, request=QUESTION, cancel=None):
    dispatcher.refresh(front)
    return list(dispatcher.ask(front, request, cancel or Event()))


def test_an_engine_without_documents_gives_the_fronts_answer(front):
    alone = last(make_engine(*NAMES).ask(QUESTION))
    remote = Remote(make_engine())
    answers = ask(dispatch({"one": remote}), front)
    assert answers[-1].text == alone.text != "" and answers[-1].state == "done" and answers[-1].engine == "one"
    assert [source.text for source in answers[-1].sources] == [source.text for source in alone.sources]
    assert answers[-1].request == QUESTION and answers[0].state == "searching"
    assert answers[-1].trace.ttft_ms > 0 and {"search", "load"} <= {stage.name for stage in answers[-1].trace.stages}
    assert not front.cache.tree.nodes  # the front computed nothing


def test_the_ratio_of_an_engines_answer_is_previewed_as_that_of_the_fronts(front):
    question = replace(QUESTION, method="cacheclip", recompute_ratio=0.3)
    alone = last(make_engine(*NAMES).ask(question))
    answer = ask(dispatch({"one": Remote(make_engine())}), front, question)[-1]
    assert answer.engine == "one" and answer.actual_ratio == alone.actual_ratio > 0
    for ratio in (0.0, 0.3, 0.6, 1.0):
        assert answer.preview(ratio).passages == alone.preview(ratio).passages


def test_a_draft_is_shown_and_verified_as_that_of_the_front(front):
    question = replace(QUESTION, method="cacheclip", recompute_ratio=0.5, draft=True)
    engines = [make_engine(*NAMES), make_engine(), front]
    for engine in engines:
        engine.min_draft_wait_ms = 0.0
    last(engines[0].ask(QUESTION))  # a draft needs cached KV
    alone = last(engines[0].ask(question))
    dispatcher = dispatch({"one": Remote(engines[1])})
    ask(dispatcher, front)
    answers = ask(dispatcher, front, question)
    assert answers[-1].draft.text == alone.draft.text != "" and answers[-1].draft_status == alone.draft_status
    assert answers[-1].text == alone.text and answers[-1].draft.trace.ttft_ms < answers[-1].trace.ttft_ms
    drafts = [answer.draft.text for answer in answers if answer.draft and not answer.text]
    assert len(set(drafts)) > 3 and all(later.startswith(earlier) for earlier, later in pairwise(drafts))


def test_the_next_question_about_the_same_passages_goes_to_the_same_engine(front):
    engines = {name: Remote(make_engine()) for name in ("one", "two", "three")}
    dispatcher = dispatch(engines)
    first = ask(dispatcher, front)[-1].engine
    again = ask(dispatcher, front, replace(QUESTION, question="What does the maintenance code say?"))[-1]
    assert again.engine == first and {source.tier for source in again.sources} == {"host"}


def test_an_engine_that_is_lost_before_any_text_is_replaced_by_another_one(front):
    alone = last(front.ask(QUESTION)).text
    engines = {name: Remote(make_engine(), fails_at=1) for name in ("one", "two")}
    dispatcher = dispatch(engines)
    engines["three"] = Remote(make_engine())
    answers = ask(dispatcher, front)
    assert answers[-1].text == alone and answers[-1].engine == "three"
    assert dispatcher.engine_names() == ["three"]


def test_without_any_engine_the_front_answers_itself(front):
    alone = last(front.ask(QUESTION)).text
    assert ask(dispatch({}), front)[-1].text == alone
    answers = ask(dispatch({"one": Remote(make_engine(), fails_at=0)}), front)
    assert answers[-1].text == alone and answers[-1].engine == "" and answers[-1].state == "done"


def test_an_answer_whose_engine_is_lost_while_it_writes_ends_and_is_not_mixed(front):
    texts = [answer.text for answer in front.ask(QUESTION)]
    writing = 1 + next(number for number, text in enumerate(texts) if text)
    engines = {name: Remote(make_engine(), fails_at=writing) for name in ("one", "two")}
    *_, before, end = ask(dispatch(engines), front)
    assert end.state == "stopped" and end.text and end.text == before.text and texts[-1].startswith(end.text)
    assert end.notes[-1] == STOPPED.format(before.engine)


def test_an_engine_with_another_model_is_refused_and_both_models_are_named(front):
    other = Remote(make_engine(build=tiny.qwen2))
    dispatcher = dispatch({"other": other})
    assert ask(dispatcher, front)[-1].engine == ""
    (reason,) = dispatcher.refused.values()
    assert front.cache.fingerprint[:12] in reason and other.engine.cache.fingerprint[:12] in reason
    assert not other.questions


def test_errors_for_the_user_and_stop_pass_through(front):
    remote = Remote(make_engine())
    dispatcher = dispatch({"one": remote})
    with pytest.raises(BadRequest):
        ask(dispatcher, front, replace(QUESTION, recompute_ratio=2))
    cancel = Event()
    cancel.set()
    assert ask(dispatcher, front, cancel=cancel)[-1].state == "stopped"
    remote.waits_for_stop, cancel = True, Event()
    answers = dispatcher.ask(front, QUESTION, cancel)
    while next(answers).engine != "one":
        pass
    cancel.set()
    assert last(answers).state == "stopped"


def test_small_talk_is_answered_here(front):
    remote = Remote(make_engine())
    assert ask(dispatch({"one": remote}), front, Request("Hello!"))[-1].text
    assert not remote.questions


def test_a_deletion_reaches_every_engine_also_one_that_comes_back(front):
    engines = {"one": Remote(make_engine()), "two": Remote(make_engine())}
    dispatcher = dispatch(engines)
    ask(dispatcher, front)
    engines["two"].is_lost = True
    dispatcher.refresh(front)
    assert dispatcher.engine_names() == ["one"]
    dispatcher.delete(["a", "b"])
    dispatcher.refresh(front)
    assert engines["one"].deleted == ["a", "b"] and not engines["two"].deleted
    engines["two"].is_lost = False
    dispatcher.refresh(front)
    dispatcher.refresh(front)
    assert engines["two"].deleted == ["a", "b"] and engines["one"].deleted == ["a", "b"]
    dispatcher.delete(["a"])  # computed again, and deleted again
    dispatcher.refresh(front)
    assert engines["one"].deleted == ["a", "b", "a"]


def test_until_the_engines_were_compared_with_a_new_model_it_answers_itself(front):
    dispatcher = dispatch({"one": Remote(make_engine())})
    assert ask(dispatcher, front)[-1].engine == "one"
    other = make_engine(*NAMES, build=tiny.qwen2)
    assert last(dispatcher.ask(other, QUESTION, Event())).engine == ""
    dispatcher.refresh(other)
    assert dispatcher.engine_names() == [] and list(dispatcher.refused) == ["one"]


def test_the_map_follows_what_engines_have(front):
    remote = Remote(make_engine())
    dispatcher = dispatch({"one": remote})
    ask(dispatcher, front)
    keys = dispatcher._map.chunks_of("one")
    assert len(keys) == 3
    remote.engine.cache.tree.clear()
    dispatcher.refresh(front)
    assert not dispatcher._map.chunks_of("one")


def test_an_engine_that_was_replaced_by_one_with_another_model_is_refused(front):
    engines = {"one": Remote(make_engine())}
    dispatcher = dispatch(engines)
    assert ask(dispatcher, front)[-1].engine == "one"
    engines["one"] = Remote(make_engine(build=tiny.qwen2))
    assert ask(dispatcher, front)[-1].engine == "" and list(dispatcher.refused) == ["one"]


def test_a_passage_that_is_deleted_while_an_engine_computes_it_is_deleted_there_again(front):
    remote = Remote(make_engine())
    dispatcher = dispatch({"one": remote})
    dispatcher.refresh(front)
    answers = dispatcher.ask(front, QUESTION, Event())
    while next(answers).engine != "one":
        pass
    key = front.cache.chunk_key(front.template.encode_passage(TEXTS["ferry"]).ids)
    dispatcher.delete([key])
    dispatcher.refresh(front)  # the engine has not computed it yet
    last(answers)
    dispatcher.refresh(front)
    assert remote.deleted == [key, key] and key not in remote.engine.cache.tree
