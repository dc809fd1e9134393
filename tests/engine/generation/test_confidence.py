"""How likely an answer is right, and whether the passages are likely to hold one."""

import pytest

from engine.generation.confidence import SUMMARY_CONFIDENCE, Confidence
from engine.prompt.question_kind import QuestionKind
from tests.support.evidence import MANUAL, OTHER, Encoder, Scorer, evidence

NOTHING = Confidence(right=0, answerable=0)


def confidence(question, *texts, probability=0.9, encoder=None):
    return evidence(question, Scorer("three years", probability=probability), *texts, encoder=encoder).confidence


@pytest.mark.parametrize("name", ["right", "answerable"])
def test_it_grows_with_probability_similarity_and_shared_words(name):
    def value(*arguments, **options):
        return getattr(confidence(*arguments, **options), name)

    low = value("How long is it insured?", OTHER, probability=0.1)
    assert 0 < low < value("How long is it insured?", OTHER, probability=0.9) < 1
    assert low < value("When does the warranty end?", OTHER, probability=0.1)
    assert low < value("How many years?", OTHER, probability=0.1, encoder=Encoder("years"))


def test_a_quote_is_more_likely_right_if_the_next_is_far_behind():
    text = "The warranty lasts three years. The long warranty lasts four years."
    far = evidence("How long is the warranty?", Scorer("three years"), text).confidence
    close = evidence("How long is the warranty?", Scorer("three years", "four years"), text).confidence
    assert close.right < far.right - 0.2
    assert abs(close.answerable - far.answerable) < 0.05


def test_without_passages_there_is_no_answer():
    assert confidence("How long?", "") == NOTHING


def test_passages_without_anything_of_the_form_asked_for_do_not_answer():
    office = "The office is in Port Arden. Write to office@port.example."
    question = "What is the email address of the office?"
    assert evidence(question, Scorer("office@port.example"), office).has_answer
    without = evidence(question, Scorer("Port Arden"), office.partition(" Write")[0])
    assert not without.has_answer and without.confidence == NOTHING


def test_a_list_needs_less_than_a_fact():
    likely, unlikely = Confidence(right=0.1, answerable=0.35), Confidence(right=0.1, answerable=0.25)
    assert likely.is_enough(QuestionKind.LIST) and not likely.is_enough(QuestionKind.FACT)
    assert not unlikely.is_enough(QuestionKind.LIST)


def test_no_single_quote_decides_how_certain_a_summary_is():
    for scorer in (Scorer("warranty"), Scorer("warranty", probability=1e-4)):
        found = evidence("Summarize it.", scorer, MANUAL)
        assert found.confidence == SUMMARY_CONFIDENCE and found.has_answer
