"""Answers held to the passages: worth by a slow search of every place, choices by weighing the whole vocabulary."""

import itertools
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from engine.answer import Request
from engine.cite import cite
from engine.grounding import WEIGHT, GroundedChooser, Grounding, Quote
from engine.model.generate import Sampling
from engine.prompt import Prompt
from engine.trace import Trace
from tests import tiny
from tests.engine.doubles import engine

PROMPT = Prompt(tiny.tokenizer())
VOCABULARY = len(PROMPT.tokens.template.get_vocab())
STOP = next(iter(PROMPT.stop_ids))
HARBOUR = "The night ferry costs 14 euros. A ticket for bicycles is 6 euros. Dogs travel free in summer."
CASTLE = "The castle opens at nine. Entry costs 11 euros, and school classes pay half."
QUESTION = "What does the night ferry cost?"
PASSAGES = (HARBOUR, CASTLE)


def quote(grounding, *pieces):
    made = Quote()
    for piece in pieces:
        made = grounding.after(made, piece)
    return made


def worth(text, question=QUESTION, passages=PASSAGES):
    return quote(Grounding(passages, question), text).worth


def test_the_sentence_with_the_questions_words_is_worth_most_then_its_passage_then_the_others():
    assert worth("14 euros") == 0.0
    assert worth("14 euros") > worth("6 euros") > worth("half")
    assert worth("15 euros") == Grounding(PASSAGES, QUESTION).worst <= worth("nine")


def test_a_form_of_a_word_counts_as_the_word_and_words_that_tell_nothing_count_nothing():
    assert worth("nine", "When does the castle open?") == 0.0
    assert Grounding(PASSAGES, "What is it, and how many are there?").worst == 0.0


@pytest.mark.parametrize("question", ["Who wrote Faust?", "", "???", "\u8fd9\u662f\u4ec0\u4e48"])
@pytest.mark.parametrize("passages", [PASSAGES, (), ("",), ("\n\n",)])
def test_a_question_whose_words_stand_nowhere_changes_nothing(question, passages):
    grounding = Grounding(passages, question)
    assert grounding.worst == quote(grounding, "anything at all").worth == 0.0
    chooser = GroundedChooser(Sampling().chooser(), grounding, PROMPT.tokens.decode, PROMPT.stop_ids)
    for seed in range(20):
        logits = torch.randn(VOCABULARY, generator=torch.Generator().manual_seed(seed))
        assert chooser.choose(logits) == int(logits.argmax())


def test_half_a_word_and_an_echo_of_the_question_are_no_answers():
    grounding = Grounding(PASSAGES, QUESTION)
    assert grounding.ended(quote(grounding, "14 eur")) == grounding.worst
    assert grounding.ended(quote(grounding, "14", " euro", "s")) == 0.0
    assert grounding.ended(quote(grounding, "The night ferry")) == grounding.worst
    assert quote(grounding, "14 eur", "opes").worth == grounding.worst


def test_an_answer_may_go_on_with_another_quote():
    grounding = Grounding(PASSAGES, QUESTION)
    assert quote(grounding, "14", ",", " nine").worth == quote(grounding, "nine").worth
    assert quote(grounding, "14", ",").worth == 0.0


def test_texts_without_spaces_between_words_are_quoted_from_any_character():
    text = "\u6e21\u8f6e\u7968\u4ef7\u5341\u56db\u6b27\u5143\u3002\u57ce\u5821\u4e5d\u70b9\u5f00\u95e8\u3002"
    grounding = Grounding((text,), "\u6e21\u8f6e\u7968\u4ef7\u591a\u5c11?")
    assert quote(grounding, text[4], text[5:8]).worth == 0.0 == grounding.ended(quote(grounding, text[4:6]))
    assert quote(grounding, "\u4e5d\u70b9").worth < 0.0


@given(st.data())
def test_a_quote_is_worth_its_best_place_however_it_is_cut_into_pieces(data):
    """Independent: find every place by its first character, and take the worth of the whole sentence around it."""
    grounding, whole = Grounding(PASSAGES, QUESTION), " ".join(PASSAGES)
    starts = [at for at in range(len(whole)) if whole[at].isalnum() and not (at and whole[at - 1].isalnum())]
    start = data.draw(st.sampled_from(starts))
    end = data.draw(st.integers(start + 1, whole.index(".", start)))
    cuts = sorted(data.draw(st.sets(st.integers(start + 1, end))) | {start, end})
    made = quote(grounding, *(whole[a:b] for a, b in itertools.pairwise(cuts)))
    places = [at for at in starts if whole.startswith(whole[start:end], at)]
    around = [whole[whole.rfind(".", 0, at) + 1 : whole.index(".", at)].strip() for at in places]
    assert made.worth == max(quote(grounding, sentence).worth for sentence in around)


@given(st.integers(0, 10_000))
def test_the_choice_is_the_best_of_the_whole_vocabulary(seed):
    """Independent: weigh every token, none left out for being too unlikely."""
    generator = torch.Generator().manual_seed(seed)
    grounding = Grounding(PASSAGES, QUESTION)
    chooser = GroundedChooser(Sampling().chooser(), grounding, PROMPT.tokens.decode, PROMPT.stop_ids)
    said, tokens = Quote(), list[int]()
    for _ in range(6):
        logits = 2 * torch.randn(VOCABULARY, generator=generator)
        weighed = logits.clone()
        for token in range(len(logits)):
            piece = PROMPT.tokens.decode([*tokens, token])[len(said.text) :]
            if token in PROMPT.stop_ids:
                weighed[token] += WEIGHT * grounding.ended(said)
            else:
                weighed[token] += WEIGHT * (said if "\ufffd" in piece else grounding.after(said, piece)).worth
        token = chooser.choose(logits)
        assert token == int(weighed.argmax())
        piece = PROMPT.tokens.decode([*tokens, token])[len(said.text) :]
        if token in PROMPT.stop_ids or "\ufffd" in piece:
            return
        said, tokens = grounding.after(said, piece), [*tokens, token]


def test_a_character_of_several_tokens_is_quoted_once_it_is_whole():
    passages = ("The night ferry sails to \u00c6r\u00f8. Another sails to \u00c6lvdal.",)
    grounding = Grounding(passages, "Where does the night ferry sail?")
    chooser = GroundedChooser(Sampling().chooser(), grounding, PROMPT.tokens.decode, PROMPT.stop_ids)
    island = PROMPT.tokens.encode("\u00c6r\u00f8").ids
    assert len(island) > 3
    for token in island:
        logits = torch.zeros(VOCABULARY)
        logits[token] = 50.0
        assert chooser.choose(logits) == token
    logits = torch.zeros(VOCABULARY)
    logits[STOP] = 0.1
    assert chooser.choose(logits) == STOP


def test_sampling_draws_from_the_weighed_logits():
    grounding = Grounding(PASSAGES, QUESTION)
    right, wrong = (PROMPT.tokens.encode(text).ids[0] for text in ("14", "9"))
    logits = torch.full((VOCABULARY,), -30.0)
    logits[[right, wrong]] = 1.0
    drawn = []
    for seed in range(300):
        sampling = Sampling(1.0, seed=seed).chooser()
        drawn.append(GroundedChooser(sampling, grounding, PROMPT.tokens.decode, PROMPT.stop_ids).choose(logits))
    expected = torch.tensor([0.0, WEIGHT * grounding.worst]).softmax(0)[0]
    assert drawn.count(right) / len(drawn) == pytest.approx(float(expected), abs=0.08)
    assert set(drawn) == {right, wrong}


def test_the_engine_writes_what_its_chooser_chooses(monkeypatch):
    """Independent: transformers' own forward pass over the whole prompt for each token."""
    monkeypatch.setattr("engine.grounding.WEIGHT", 40.0)  # a random model is hard to move
    request = Request("When does the Old Kestrel sail to Port Arden?", method="full", passages=2, max_new_tokens=8)
    request = replace(request, temperature=2.0, seed=3)
    made = engine("ferry", "tern")
    *_, free = made.ask(request)
    made.grounded = True
    *_, answer = made.ask(request)
    assert answer.text != free.text
    reading = made.find(request, Trace())
    chooser, said = made.chooser(reading, Sampling(2.0, request.top_p, 3)), list[int]()
    ids = [*made.prompt.prefix, *(t for passage in reading.passages for t in passage.ids), *reading.question]
    with torch.no_grad():
        while len(said) < 8 and not (said and said[-1] in made.prompt.stop_ids):
            said.append(chooser.choose(tiny.model()(torch.tensor([[*ids, *said]])).logits[0, -1]))
    whole = made.prompt.tokens.decode(said).rstrip("\ufffd").strip()  # the last character may lack its other bytes
    assert answer.text == cite(whole, reading.texts, request.question)[0]
