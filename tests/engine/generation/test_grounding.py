"""Grounded decoding against references: a search of every position, and fusion over the whole vocabulary."""

import itertools
import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bench.harness.engine import open_engine
from engine import builder
from engine.analysis.comparison import CompareRequest
from engine.analysis.comparison_runner import compare
from engine.builder import ModelConfig, load_models
from engine.generation import grounding
from engine.generation.citations import cite
from engine.generation.grounding import (
    MAX_RANGE,
    SENTENCE_WEIGHT,
    GroundedSampler,
    GroundingModel,
    QuoteState,
    SentenceScores,
)
from engine.generation.span_scorer import SpanScorer
from engine.model.encoder import load_minilm
from engine.model.sampling import TokenSampler
from engine.prompt.overlap import PASSAGE_WEIGHT, sentence_scores, unsupported_words
from engine.prompt.template import NO_ANSWER, PromptTemplate
from engine.request import ChatTurn, Request
from engine.trace import Trace
from tests.support import tiny
from tests.support.doubles import last, make_engine

PROMPT = PromptTemplate(tiny.tokenizer())
VOCABULARY = len(PROMPT.tokenizer.template.get_vocab())
STOP = next(iter(PROMPT.stop_ids))
HARBOUR = "The night ferry costs 14 euros. A ticket for bicycles is 6 euros. Dogs travel free in summer."
CASTLE = "The castle opens at nine. Entry costs 11 euros, and school classes pay half."
QUESTION = "What does the night ferry cost?"
PASSAGES = (HARBOUR, CASTLE)


def quote(scores, *pieces):
    state = QuoteState()
    for piece in pieces:
        state = scores.advance(state, piece)
    return state


def score(text, question=QUESTION, passages=PASSAGES):
    return quote(SentenceScores(passages, question), text).score


def test_the_sentence_with_the_question_words_scores_best_then_its_passage_then_the_others():
    assert score("14 euros") == 0.0
    assert score("14 euros") > score("6 euros") > score("half")
    assert score("15 euros") == SentenceScores(PASSAGES, QUESTION).min_score <= score("nine")


def test_a_score_is_the_idf_of_the_sentences_question_words_and_half_that_of_its_passages():
    """Independent: by hand. Of five sentences one has 'ferry', one 'castle', two cost."""
    passages = (HARBOUR, CASTLE)
    rare, common = math.log(1 + 5 / 2), math.log(1 + 5 / 3)
    scores = SentenceScores(passages, "Which ferry costs more than a castle?")
    best = (1 + PASSAGE_WEIGHT) * (rare + common)
    for text, found in {
        "14": best,
        "Dogs": PASSAGE_WEIGHT * (rare + common),
        "The castle": rare + PASSAGE_WEIGHT * (rare + common),
        "school": common + PASSAGE_WEIGHT * (rare + common),
    }.items():
        assert quote(scores, text).score == pytest.approx(found - best), text
    assert scores.min_score == pytest.approx(-best)


def test_word_forms_count_as_one_word_and_stop_words_do_not_count():
    assert score("nine", "When does the castle open?") == 0.0
    stays = ("Gulls cry. The kestrel arrives at nine.",)
    for form, same in {"arrive": True, "arrived": True, "arid": False, "array": False}.items():
        asked = f"When did it {form}?"
        assert (score("nine", asked, stays) > score("Gulls", asked, stays)) == same, form
    assert SentenceScores(PASSAGES, "What is it, and how many are there?").min_score == 0.0
    owned = ("The captain is Anna Vale. The tern's captain's hat is Bern Oster's.",)
    assert score("Anna", "Who's the captain?", owned) == score("Bern", "Who's the captain?", owned) == 0.0


def test_numbers_with_a_common_prefix_are_different_words():
    bills = ("Invoice 20240117 is paid. Invoice 20240118 is not.",)
    assert score("is not", "Who paid 20240118?", bills) == 0.0 > score("is paid", "What of 20240118?", bills)


def test_wrapped_lines_belong_to_one_sentence():
    wrapped = ("The night ferry costs, when it\nruns at all, 14 euros. Dogs cost 6 euros.",)
    assert score("14", QUESTION, wrapped) == 0.0 > score("6", QUESTION, wrapped)


def test_the_words_of_a_long_question_have_less_weight():
    """Grounding changes a logit by a bounded amount, however long the question is."""
    long = " ".join(f"word{number}x" for number in range(40))
    scores = SentenceScores((f"It says {long}. Nothing else.", "A second."), long)
    assert scores.min_score == quote(scores, "A second").score == -MAX_RANGE
    assert quote(scores, "word7x").score == 0.0


@pytest.mark.parametrize("question", ["Who wrote Faust?", "", "???", "\u8fd9\u662f\u4ec0\u4e48"])
@pytest.mark.parametrize("passages", [PASSAGES, (), ("",), ("\n\n",)])
def test_a_question_without_words_in_the_passages_changes_nothing(question, passages):
    scores = SentenceScores(passages, question)
    assert scores.min_score == quote(scores, "anything at all").score == 0.0
    sampler = GroundedSampler(TokenSampler(), scores, PROMPT.tokenizer.decode, PROMPT.stop_ids)
    for seed in range(20):
        logits = torch.randn(VOCABULARY, generator=torch.Generator().manual_seed(seed))
        assert sampler.sample(logits) == int(logits.argmax())


def test_incomplete_words_and_echoes_of_the_question_are_no_answers():
    scores = SentenceScores(PASSAGES, QUESTION)
    assert scores.end_score(quote(scores, "14 eur")) == scores.min_score
    assert scores.end_score(quote(scores, "14", " euro", "s")) == 0.0
    assert scores.end_score(quote(scores, "The night ferry")) == scores.min_score
    assert scores.end_score(quote(scores, "14 eur", ".")) == quote(scores, "14 eur", ".").score == scores.min_score
    for going_on in ("opes", " ferry", "-ferry"):
        assert quote(scores, "14 eur", going_on).score == scores.min_score
    assert quote(scores, "14 eur", " night", " ferry").score == 0.0  # that is past
    assert quote(scores, "14", "ferry").score == scores.min_score  # no word of its own
    assert scores.end_score(quote(scores, "6 euro")) == scores.min_score
    scores = SentenceScores((*PASSAGES, "One night ferry costs a euro."), QUESTION)
    assert scores.end_score(quote(scores, "euro")) == 0.0 > scores.end_score(quote(scores, "14 euro"))


def test_part_of_a_number_is_an_incomplete_word():
    scores = SentenceScores(("The harbour costs 1,684,000.50 euros, the ferry 14, and 1,5 of it is paid.",), QUESTION)
    for part in ("1", "1,", "1,684", "1,684,000.", "684"):
        assert scores.end_score(quote(scores, part)) == scores.min_score, part
    assert scores.end_score(quote(scores, "1,684,000.50")) == scores.end_score(quote(scores, "14")) == 0.0
    assert quote(scores, "14", ",5").score == scores.min_score


def test_an_empty_answer_may_not_end_but_has_lost_nothing():
    scores = SentenceScores(PASSAGES, QUESTION)
    assert QuoteState().score == quote(scores, "\n").score == 0.0
    assert scores.end_score(QuoteState()) == scores.end_score(quote(scores, "\n")) == scores.min_score


def test_words_of_earlier_turns_may_be_the_answer():
    passages, before = ("Ingrid Dahl is captain on the North Route.",), "Who has the Tern? Ingrid Dahl."
    asked = f"{before} And who is captain on the North Route?"
    assert SentenceScores(passages, asked).end_score(quote(SentenceScores(passages, asked), "Ingrid Dahl")) < 0.0
    scores = SentenceScores(passages, asked, "And who is captain on the North Route?")
    assert scores.end_score(quote(scores, "Ingrid Dahl")) == 0.0


def test_an_alternative_question_is_answered_with_its_own_words():
    passages = ("Bern Oster was born in 1961. Anna Vale was born in 1958.",)
    scores = SentenceScores(passages, "Who was born first, Bern Oster or Anna Vale?")
    assert scores.end_score(quote(scores, "Anna Vale")) == quote(scores, "Anna Vale").score > scores.min_score


@given(st.integers(len("The p"), len(NO_ANSWER)))
def test_a_refusal_loses_nothing_after_its_first_word(cut):
    scores = SentenceScores(PASSAGES, QUESTION)
    begun = quote(scores, NO_ANSWER[:cut])
    assert begun.score == 0.0
    refusal = scores.advance(begun, NO_ANSWER[cut:])
    assert refusal.score == scores.end_score(refusal) == 0.0
    assert quote(scores, " The", " passages", " have").score == scores.min_score
    assert score("The", "Do classes pay?") == score("The castle", "Do classes pay?") < 0.0


def test_punctuation_before_a_word_is_not_part_of_it():
    """Llama's and Qwen's tokenizers cut '(Kes' and '-based' as one."""
    scores = SentenceScores(('The night ferry ("Kestrel") costs 14 euros.', CASTLE), QUESTION)
    for pieces in (("Kes", "trel"), ("(Kes", "trel"), (' "Kes', "trel", '"')):
        assert quote(scores, *pieces).score == scores.end_score(quote(scores, *pieces)) == 0.0, pieces
    assert quote(scores, "14", "-zebra").score == scores.min_score


def test_an_answer_may_continue_with_another_quote():
    scores = SentenceScores(PASSAGES, QUESTION)
    assert quote(scores, "14", ",", " nine").score == quote(scores, "nine").score
    assert quote(scores, "14", ",").score == 0.0
    assert quote(scores, "6", ",").score == quote(scores, "6").score < 0.0


def test_texts_without_spaces_between_words_are_quoted_from_any_character():
    text = "\u6e21\u8f6e\u7968\u4ef7\u5341\u56db\u6b27\u5143\u3002\u57ce\u5821\u4e5d\u70b9\u5f00\u95e8\u3002"
    scores = SentenceScores((text,), "\u6e21\u8f6e\u7968\u4ef7\u591a\u5c11?")
    assert quote(scores, text[4], text[5:8]).score == 0.0 == scores.end_score(quote(scores, text[4:6]))
    assert quote(scores, "\u4e5d\u70b9").score < 0.0


@given(st.data())
def test_a_quote_has_the_score_of_its_best_place_however_it_is_split_into_pieces(data):
    """Independent: find every place by its first character, and take the score of the whole sentence around it."""
    scores, whole = SentenceScores(PASSAGES, QUESTION), " ".join(PASSAGES)
    starts = [at for at in range(len(whole)) if whole[at].isalnum() and not (at and whole[at - 1].isalnum())]
    start = data.draw(st.sampled_from(starts))
    end = data.draw(st.integers(start + 1, whole.index(".", start)))
    cuts = sorted(data.draw(st.sets(st.integers(start + 1, end))) | {start, end})
    state = quote(scores, *(whole[a:b] for a, b in itertools.pairwise(cuts)))
    places = [at for at in starts if whole.startswith(whole[start:end], at)]
    around = [whole[whole.rfind(".", 0, at) + 1 : whole.index(".", at)].strip() for at in places]
    assert state.score == max(quote(scores, sentence).score for sentence in around)


@given(st.integers(0, 10_000))
def test_the_sample_is_the_best_of_the_whole_vocabulary(seed):
    """Independent: weigh every token, none left out for being too unlikely."""
    generator = torch.Generator().manual_seed(seed)
    scores = SentenceScores(PASSAGES, QUESTION)
    sampler = GroundedSampler(TokenSampler(), scores, PROMPT.tokenizer.decode, PROMPT.stop_ids)
    state, tokens = QuoteState(), list[int]()
    for _ in range(6):
        logits = 2 * torch.randn(VOCABULARY, generator=generator)
        fused = logits.clone()
        for token in range(len(logits)):
            piece = PROMPT.tokenizer.decode([*tokens, token])[len(state.text) :]
            if token in PROMPT.stop_ids:
                fused[token] += SENTENCE_WEIGHT * scores.end_score(state)
            else:
                fused[token] += SENTENCE_WEIGHT * (state if "\ufffd" in piece else scores.advance(state, piece)).score
        token = sampler.sample(logits)
        assert token == int(fused.argmax())
        piece = PROMPT.tokenizer.decode([*tokens, token])[len(state.text) :]
        if token in PROMPT.stop_ids or "\ufffd" in piece:
            return
        state, tokens = scores.advance(state, piece), [*tokens, token]


def test_a_character_of_several_tokens_is_quoted_when_it_is_complete():
    passages = ("The night ferry sails to \u00c6r\u00f8. Another sails to \u00c6lvdal.",)
    scores = SentenceScores(passages, "Where does the night ferry sail?")
    sampler = GroundedSampler(TokenSampler(), scores, PROMPT.tokenizer.decode, PROMPT.stop_ids)
    island = PROMPT.tokenizer.encode("\u00c6r\u00f8").ids
    assert len(island) > 3
    for token in island:
        logits = torch.zeros(VOCABULARY)
        logits[token] = 50.0
        assert sampler.sample(logits) == token
    logits = torch.zeros(VOCABULARY)
    logits[STOP] = 0.1
    assert sampler.sample(logits) == STOP


def sampled_after(pieces, decode, other):
    """Return the token sampled after some pieces if the stop token leads by half a nat over token `other`."""
    scores = SentenceScores(("The night ferry to \u00c6r\u00f8 costs 14 euros.", CASTLE), QUESTION)
    sampler = GroundedSampler(TokenSampler(), scores, decode, frozenset({0}))
    for token in pieces:
        logits = torch.full((300,), -50.0)
        logits[token] = 50.0
        assert sampler.sample(logits) == token
    logits = torch.full((300,), -50.0)
    logits[0], logits[other] = 0.5, 0.0
    return sampler.sample(logits)


WORDS = ["", " 14", " euros", " eur", "os", " nine", " The", " ferry", " costs"]


@pytest.mark.parametrize(
    ("tokens", "other", "ends"),
    [([], 1, False), ([1, 2], 8, True), ([1, 3], 4, False), ([6, 7], 8, False), ([1], 2, True)],
    ids=["empty", "answer", "incomplete word", "echo", "may continue"],
)
def test_an_answer_may_end_only_when_it_is_complete(tokens, other, ends):
    """Words as in SentencePiece: a text is decoded without the space of its first piece."""
    decode = lambda ids: "".join(WORDS[token] for token in ids).removeprefix(" ")  # noqa: E731
    assert (sampled_after(tokens, decode, other) == 0) == ends


def test_characters_of_byte_tokens_are_quoted_in_sequence():
    """Byte fallback as in Llama 2's tokenizer: bytes become text when their character is complete."""
    decode = lambda ids: bytes(ids).decode(errors="replace")  # noqa: E731
    text = "ferry to \u00c6r\u00f8".encode()
    assert sampled_after(list(text), decode, 0xC3) == 0  # a complete word: the stop token loses nothing
    assert sampled_after(list(text[:-2]), decode, 0xC3) == 0xC3  # an incomplete word, which that byte may complete


def test_tokens_that_cannot_win_get_the_minimum_score():
    """Independent: the chance of the far token where both are fused by hand."""
    scores = SentenceScores(PASSAGES, QUESTION)
    near, far = (PROMPT.tokenizer.encode(text).ids[0] for text in ("14", "9"))
    reach = -SENTENCE_WEIGHT * scores.min_score
    logits = torch.full((VOCABULARY,), -1e4)
    logits[near], logits[far] = 0.0, -reach - 1
    drawn = []
    for seed in range(400):
        sampling = TokenSampler(5.0, seed=seed)
        drawn.append(GroundedSampler(sampling, scores, PROMPT.tokenizer.decode, PROMPT.stop_ids).sample(logits))
    expected = torch.tensor([0.0, (-2 * reach - 1) / 5]).softmax(0)[1]
    assert drawn.count(far) / len(drawn) == pytest.approx(float(expected), abs=0.06)
    assert set(drawn) == {near, far}


def test_sampling_draws_from_the_fused_logits():
    scores = SentenceScores(PASSAGES, QUESTION)
    right, wrong = (PROMPT.tokenizer.encode(text).ids[0] for text in ("14", "9"))
    logits = torch.full((VOCABULARY,), -30.0)
    logits[[right, wrong]] = 1.0
    drawn = []
    for seed in range(300):
        sampling = TokenSampler(1.0, seed=seed)
        drawn.append(GroundedSampler(sampling, scores, PROMPT.tokenizer.decode, PROMPT.stop_ids).sample(logits))
    expected = torch.tensor([0.0, SENTENCE_WEIGHT * scores.min_score]).softmax(0)[0]
    assert drawn.count(right) / len(drawn) == pytest.approx(float(expected), abs=0.08)
    assert set(drawn) == {right, wrong}


def test_the_engine_generates_what_its_sampler_samples(monkeypatch):
    """Independent: transformers' own forward pass over the whole prompt for each token."""
    monkeypatch.setattr("engine.generation.grounding.SENTENCE_WEIGHT", 40.0)  # a random model is hard to move
    request = Request("When does the Old Kestrel sail to Port Arden?", method="full", passages=2, max_new_tokens=8)
    request = replace(request, temperature=2.0, seed=3)
    engine = make_engine("ferry", "tern")
    *_, free = engine.ask(request)
    engine.grounding = GroundingModel()
    *_, answer = engine.ask(request)
    assert answer.text != free.text
    prepared = engine.prepare(request, Trace())
    scores = SentenceScores(prepared.texts, request.question)
    sampled = TokenSampler(2.0, request.top_p, 3)
    sampler = GroundedSampler(sampled, scores, engine.template.tokenizer.decode, engine.template.stop_ids)
    tokenizer, stop_ids = engine.template.tokenizer, engine.template.stop_ids
    passage_ids = [token for passage in prepared.passages for token in passage.ids]
    prompt_ids = [*engine.template.prefix_ids, *passage_ids, *prepared.suffix_ids]
    answer_ids = list[int]()
    with torch.no_grad():
        while len(answer_ids) < 8 and not (answer_ids and answer_ids[-1] in stop_ids):
            logits = tiny.model()(torch.tensor([[*prompt_ids, *answer_ids]])).logits[0, -1]
            answer_ids.append(sampler.sample(logits))
    text = tokenizer.decode(answer_ids).rstrip("\ufffd").strip()  # the last character may be incomplete
    assert answer.text == cite(text, prepared.texts, request.question)[0]
    stages = [[stage.name for stage in each.trace.stages] for each in (free, answer)]
    assert [names.count("ground") for names in stages] == [0, 1]


class RecitingSampler:
    """Samples the tokens of one text, whatever the logits."""

    def __init__(self):
        self._left = [*PROMPT.tokenizer.encode("at nine").ids, STOP]

    def sample(self, logits):
        return self._left.pop(0)


def test_comparisons_and_the_engine_use_the_same_sampler(monkeypatch):
    engine, question = make_engine("ferry", "tern"), "When does the Old Kestrel sail to Port Arden?"
    monkeypatch.setattr(GroundingModel, "sampler", lambda *arguments: RecitingSampler())
    engine.grounding = GroundingModel()
    compared = last(compare(engine, CompareRequest(question, ("direct",), (0.2,), passages=2, max_new_tokens=8)))
    assert [outcome.answer for outcome in compared.outcomes] == ["at nine"] * 2
    assert last(engine.ask(Request(question, passages=2, max_new_tokens=8))).text == "at nine"


def test_a_follow_up_is_scored_with_its_history(monkeypatch):
    engine = make_engine("ferry", "tern")
    earlier = (ChatTurn("When does the Old Kestrel sail?", "At nine.", ()),)
    prepared = engine.prepare(Request("And where does it go?", history=earlier), Trace())
    assert prepared.original_question == "And where does it go?" != prepared.standalone_question
    assert (
        prepared.standalone_question.endswith(prepared.original_question) and "At nine" in prepared.standalone_question
    )
    given = []
    monkeypatch.setattr(
        grounding, "SentenceScores", lambda *arguments: given.append(arguments) or SentenceScores(*arguments)
    )
    engine.grounding = GroundingModel()
    engine.sampler(prepared, Trace(), TokenSampler())
    assert (
        given == [(prepared.texts, prepared.standalone_question, prepared.original_question, None)]
        and len(prepared.texts) == 2
    )


@pytest.mark.parametrize(("reader", "held"), [("folder", True), ("off", False)])
def test_only_models_finetuned_to_quote_use_grounded_decoding(monkeypatch, tmp_path, reader, held):
    monkeypatch.setattr(builder, "resolve", lambda *arguments: tmp_path)
    monkeypatch.setattr(builder, "load_decoder", lambda *arguments: tiny.decoder())
    config = ModelConfig(tmp_path, "tiny", "tiny", device="cpu", dtype="fp32", lora_adapter=reader, span_scorer="off")
    assert (load_models(config).grounding is not None) is held
    assert (open_engine(config).grounding is not None) is held
    assert open_engine(config, grounding="off").grounding is None


def test_another_model_writes_its_own_answer_which_is_then_supported(monkeypatch):
    """Its tokens are the same as without evidence, which is found after the first one."""
    request = Request("When does the Old Kestrel sail to Port Arden?", method="full", passages=2, max_new_tokens=8)
    engine = make_engine("ferry", "tern")
    free = last(engine.ask(request))
    engine.grounding = GroundingModel(SpanScorer(*load_minilm(torch.float32)), is_extractive=False)
    answer = last(engine.ask(request))
    assert answer.text == free.text and answer.quotes and not answer.is_quoted and 0 <= answer.confidence <= 1
    starts = [stage.start_ms for stage in answer.trace.stages if stage.name == "ground"]
    assert len(starts) == 1 and starts[0] > answer.trace.ttft_ms


@pytest.mark.parametrize(
    ("answer", "missing"),
    [
        ("It cost 1,684 pounds in 2019.", []),
        ("1. It cost 1684.\n2. Then Anna Holt left.", []),
        ("It cost 17 pounds in 2018.", ["17", "2018"]),
        ("The head was Boris Holt.", ["Boris"]),
    ],
)
def test_numbers_and_names_that_no_passage_contains_are_found(answer, missing):
    assert unsupported_words(answer, ["In 2019 the pier cost 1.684 pounds, said Anna", "Who is Holt?"]) == missing


def test_abbreviations_count_as_the_words_that_they_stand_for():
    sentences = [
        ["Ann is Chief Financial Officer.", "Ben is Head of Human Resources.", "Cem is the CEO, and IT is Dov."]
    ]
    for question, first in (
        ("Who is the CFO?", 0),
        ("Who leads HR?", 1),
        ("Who is chief executive officer?", 2),
        ("What is the offer?", None),  # its initials are 'wito'
    ):
        scores = sentence_scores(sentences, question)
        assert (scores.index(max(scores)) if max(scores) > min(scores) else None) == first


def test_parts_of_a_german_compound_count_as_shared_words():
    sentences = [["Der Verlust eines Schl\u00fcssels kostet 75 Euro.", "Die Zaunreparatur kostet mehr."]]
    key, fence = sentence_scores(sentences, "Was kostet ein neuer Autoschl\u00fcssel?")
    assert key > fence
    key, fence = sentence_scores(sentences, "Was kostet der Zaun?")
    assert fence > key
