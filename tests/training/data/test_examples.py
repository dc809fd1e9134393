"""Training examples are seeded and within their bounds; each answer is in the passages or is a refusal."""

from dataclasses import replace

import pytest

from engine.prompt.template import NO_ANSWER, PromptTemplate
from tests.support import tiny
from tests.support.boats import DISTRACTORS, PARAGRAPHS
from training.data.corpus import Corpus, Paragraph
from training.data.examples import (
    MAX_ANSWER_TOKENS,
    UNRELATED_QUESTIONS,
    DataMix,
    TrainingExamples,
    train_eval_split,
)

MIX = DataMix(max_passages=4, max_tokens=400, max_questions=6)


@pytest.fixture(scope="module")
def prompt():
    return PromptTemplate(tiny.tokenizer())


def examples(prompt, seed=0, **mix):
    return TrainingExamples(prompt, [Corpus("boats", PARAGRAPHS)], DISTRACTORS, DataMix(**{**vars(MIX), **mix}), seed)


def decoded(prompt, example):
    decode = prompt.tokenizer.template.decode
    context = decode([token for passage in example.passages for token in passage])
    return context, [
        (decode(question), decode(answer, skip_special_tokens=True))
        for question, answer in example.questions
        if answer[-1:] == prompt.end_ids
    ]


def test_an_example_does_not_depend_on_those_drawn_before(prompt):
    one, other = examples(prompt), examples(prompt)
    assert [one[n] for n in range(6)] == [other[n] for n in reversed(range(6))][::-1]
    assert one[0] != examples(prompt, seed=1)[0]


@pytest.mark.parametrize("synthetic_fraction", [0.0, 1.0])
def test_every_answer_is_in_the_passages_or_is_a_refusal(prompt, synthetic_fraction):
    drawn, num_refusals, num_answers = examples(prompt, synthetic_fraction=synthetic_fraction), 0, 0
    for number in range(60):
        context, pairs = decoded(prompt, drawn[number])
        for question, answer in pairs:
            values = answer.removesuffix(".").rsplit(" is ", 1)[-1].rsplit(" are ", 1)[-1].split(", ")
            if answer == NO_ANSWER:
                num_refusals += 1
                named = [p for p in PARAGRAPHS for q, _ in p.questions if q in question]
                assert all(paragraph.text not in context for paragraph in named)
            else:
                num_answers += 1
                assert all(value in context for value in values)
    assert num_answers > num_refusals > 0


def test_examples_keep_their_bounds_and_use_every_kind_of_prefill(prompt):
    made = [examples(prompt)[number] for number in range(80)]
    assert all(1 <= len(example.passages) <= MIX.max_passages and example.questions for example in made)
    answers = [answer for example in made for _, answer in example.questions]
    assert all(
        (answer[-1:] == prompt.end_ids) == (len(answer) < MAX_ANSWER_TOKENS)
        for answer in answers
        if len(answer) != MAX_ANSWER_TOKENS
    )
    assert {(example.is_independent, bool(example.recomputed)) for example in made} == {
        (False, False),
        (True, False),
        (True, True),
    }
    for example in made:
        assert list(example.recomputed) == sorted(set(example.recomputed))
        assert all(len(example.prefix) <= slot < len(example.context) for slot in example.recomputed)


def test_windows_never_cross_a_passage_and_are_whole(prompt):
    example = next(x for x in (examples(prompt)[n] for n in range(80)) if len(x.passages) > 1)
    everything = examples(prompt).random_windows(example, 1.1)
    assert list(everything) == list(range(len(example.prefix), len(example.context)))
    some, starts, slot = set(examples(prompt).random_windows(example, 0.5)), [], len(example.prefix)
    for passage in example.passages:
        starts += [(start, min(start + 8, slot + len(passage))) for start in range(slot, slot + len(passage), 8)]
        slot += len(passage)
    assert all(len(some & set(range(*window))) in (0, window[1] - window[0]) for window in starts)


def test_held_out_paragraphs_are_not_in_the_training_set(prompt):
    examples, eval_examples = train_eval_split(prompt, [Corpus("boats", PARAGRAPHS * 7)], MIX, 0, 0.2)
    (kept,), (held,) = examples.corpora, eval_examples.corpora
    assert kept.paragraphs + held.paragraphs == PARAGRAPHS * 7 and len(held.paragraphs) == 14


def test_a_paragraph_longer_than_an_example_is_truncated(prompt):
    long = Corpus("long", (Paragraph("word " * 3000, (("What?", "word"),)),))
    example = TrainingExamples(prompt, [long], (), MIX, 0)[0]
    assert 0 < len(example.context) < 3000


def test_passages_that_belong_together_stay_in_one_example_and_are_shuffled(prompt):
    together = [
        Paragraph(f"{n} is red.", (("Which are red?", f"{n} and {n}b"),), others=(f"{n}b is red.", f"{n}c is not."))
        for n in range(9)
    ]
    drawn = TrainingExamples(
        prompt, [Corpus("groups", tuple(together))], (), replace(MIX, synthetic_fraction=0.0), seed=0
    )
    first = set()
    for number in range(40):
        texts, pairs = drawn.texts(number)
        for n in {text.split()[0].rstrip("bc") for text in texts}:
            assert {f"{n} is red.", f"{n}b is red.", f"{n}c is not."} <= set(texts)
        first.add(texts[0].split()[0][1:])
        assert pairs
    assert first == {"", "b", "c"}


def test_cut_passages_keep_every_sentence(prompt):
    text = " ".join(f"Boat {n} carries exactly {n} barrels of good oil." for n in range(12))
    corpus = Corpus("own", (Paragraph(text, (("What does boat 3 carry?", "3 barrels"),)),) * 4)
    whole, cut = (
        TrainingExamples(prompt, [corpus], (), replace(MIX, split_fraction=fraction), seed=0)[0]
        for fraction in (0.0, 1.0)
    )
    assert len(whole.passages) == 1 < len(cut.passages) and whole.questions == cut.questions
    decode = prompt.tokenizer.template.decode
    words = [sorted(" ".join(map(decode, example.passages)).split()) for example in (whole, cut)]
    assert words[0] == words[1]


def test_no_question_of_an_example_has_two_answers(prompt):
    asked = [Paragraph(f"Page {n} has a name.", ((f"Is page {n} red?", "Yes"),)) for n in range(12)]
    drawn = TrainingExamples(prompt, [Corpus("yes", tuple(asked))], (), replace(MIX, synthetic_fraction=0.0), seed=0)
    for number in range(60):
        texts, pairs = drawn.texts(number)
        assert all(
            (answer == "Yes") == (f"{question[3:-5].capitalize()} has a name." in texts) for question, answer in pairs
        )


def test_a_truncated_paragraph_has_no_question_about_what_is_left_out(prompt):
    text = "The Tern has a red hull. " + "It rains on the quay. " * 120 + "The Skua has a blue hull."
    pairs = (("Which colour is the Tern?", "red"), ("Which colour is the Skua?", "blue"))
    drawn = TrainingExamples(
        prompt, [Corpus("long", (Paragraph(text, pairs),))], [], replace(MIX, max_tokens=60, synthetic_fraction=0.0), 0
    )
    refused = {(question, NO_ANSWER) for question in (pairs[1][0], *UNRELATED_QUESTIONS)}
    for number in range(20):
        _, questions = drawn.texts(number)
        assert set(questions) <= {pairs[0]} | refused


def test_the_passages_of_evaluation_examples_are_never_cut(prompt):
    corpora = [Corpus("boats", PARAGRAPHS * 7)]
    for fraction in (0.0, 1.0):
        _, evaluation = train_eval_split(prompt, corpora, replace(MIX, split_fraction=fraction), 0, 0.4)
        texts, _ = evaluation.texts(0)
        assert evaluation[0].passages == tuple(prompt.passage(text).ids for text in texts)
