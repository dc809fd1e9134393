"""Answers held to the passages: worth by a slow search of every place, choices by weighing the whole vocabulary."""

import itertools
import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bench.harness import engine as bare
from engine import builder as startup
from engine.analysis.comparison_runner import compare
from engine.analysis.comparison import CompareRequest
from engine.builder import ModelConfig, load_models
from engine.generation import grounded_sampler as grounded
from engine.generation.citations import cite
from engine.generation.grounded_sampler import GroundedSampler, GroundingModel
from engine.generation.grounding import MAX_RANGE, PASSAGE_WEIGHT, SENTENCE_WEIGHT, QuoteState, SentenceScores
from engine.model.sampling import SamplingParams
from engine.prompt.template import NO_ANSWER, PromptTemplate
from engine.request import ChatTurn, Request
from engine.trace import Trace
from tests.support import tiny
from tests.support.doubles import engine, last

PROMPT = PromptTemplate(tiny.tokenizer())
VOCABULARY = len(PROMPT.tokenizer.template.get_vocab())
STOP = next(iter(PROMPT.stop_ids))
HARBOUR = "The night ferry costs 14 euros. A ticket for bicycles is 6 euros. Dogs travel free in summer."
CASTLE = "The castle opens at nine. Entry costs 11 euros, and school classes pay half."
QUESTION = "What does the night ferry cost?"
PASSAGES = (HARBOUR, CASTLE)


def quote(grounding, *pieces):
    made = QuoteState()
    for piece in pieces:
        made = grounding.after(made, piece)
    return made


def worth(text, question=QUESTION, passages=PASSAGES):
    return quote(SentenceScores(passages, question), text).score


def test_the_sentence_with_the_questions_words_is_worth_most_then_its_passage_then_the_others():
    assert worth("14 euros") == 0.0
    assert worth("14 euros") > worth("6 euros") > worth("half")
    assert worth("15 euros") == SentenceScores(PASSAGES, QUESTION).min_score <= worth("nine")


def test_a_sentence_is_worth_its_telling_words_and_half_of_its_passages_rare_ones_more():
    """Independent: by hand. Of five sentences one has 'ferry', one 'castle', two cost."""
    passages = (HARBOUR, CASTLE)
    rare, common = math.log(1 + 5 / 2), math.log(1 + 5 / 3)
    grounding = SentenceScores(passages, "Which ferry costs more than a castle?")
    best = (1 + PASSAGE_WEIGHT) * (rare + common)
    for text, found in {
        "14": best,
        "Dogs": PASSAGE_WEIGHT * (rare + common),
        "The castle": rare + PASSAGE_WEIGHT * (rare + common),
        "school": common + PASSAGE_WEIGHT * (rare + common),
    }.items():
        assert quote(grounding, text).score == pytest.approx(found - best), text
    assert grounding.min_score == pytest.approx(-best)


def test_long_words_of_a_common_beginning_count_as_one_and_words_that_tell_nothing_count_nothing():
    assert worth("nine", "When does the castle open?") == 0.0
    stays = ("Gulls cry. The kestrel arrives at nine.",)
    for form, same in {"arrive": True, "arrived": True, "arid": False, "array": False}.items():
        asked = f"When did it {form}?"
        assert (worth("nine", asked, stays) > worth("Gulls", asked, stays)) == same, form
    assert SentenceScores(PASSAGES, "What is it, and how many are there?").min_score == 0.0
    owned = ("The captain is Anna Vale. The tern's captain's hat is Bern Oster's.",)
    assert worth("Anna", "Who's the captain?", owned) == worth("Bern", "Who's the captain?", owned) == 0.0


def test_numbers_with_a_common_beginning_are_not_forms_of_one_another():
    bills = ("Invoice 20240117 is paid. Invoice 20240118 is not.",)
    assert worth("is not", "Who paid 20240118?", bills) == 0.0 > worth("is paid", "What of 20240118?", bills)


def test_lines_that_go_on_with_a_sentence_belong_to_it():
    wrapped = ("The night ferry costs, when it\nruns at all, 14 euros. Dogs cost 6 euros.",)
    assert worth("14", QUESTION, wrapped) == 0.0 > worth("6", QUESTION, wrapped)


def test_the_words_of_a_long_question_count_less_each():
    """However much is asked, the model's opinion of a token can be outweighed by so much and no more."""
    long = " ".join(f"word{number}x" for number in range(40))
    grounding = SentenceScores((f"It says {long}. Nothing else.", "A second."), long)
    assert grounding.min_score == quote(grounding, "A second").score == -MAX_RANGE
    assert quote(grounding, "word7x").score == 0.0


@pytest.mark.parametrize("question", ["Who wrote Faust?", "", "???", "\u8fd9\u662f\u4ec0\u4e48"])
@pytest.mark.parametrize("passages", [PASSAGES, (), ("",), ("\n\n",)])
def test_a_question_whose_words_stand_nowhere_changes_nothing(question, passages):
    grounding = SentenceScores(passages, question)
    assert grounding.min_score == quote(grounding, "anything at all").score == 0.0
    chooser = GroundedSampler(SamplingParams().sampler(), grounding, PROMPT.tokenizer.decode, PROMPT.stop_ids)
    for seed in range(20):
        logits = torch.randn(VOCABULARY, generator=torch.Generator().manual_seed(seed))
        assert chooser.sample(logits) == int(logits.argmax())


def test_half_a_word_and_an_echo_of_the_question_are_no_answers():
    grounding = SentenceScores(PASSAGES, QUESTION)
    assert grounding.end_score(quote(grounding, "14 eur")) == grounding.min_score
    assert grounding.end_score(quote(grounding, "14", " euro", "s")) == 0.0
    assert grounding.end_score(quote(grounding, "The night ferry")) == grounding.min_score
    assert grounding.end_score(quote(grounding, "14 eur", ".")) == quote(grounding, "14 eur", ".").score == grounding.min_score
    for going_on in ("opes", " ferry", "-ferry"):
        assert quote(grounding, "14 eur", going_on).score == grounding.min_score
    assert quote(grounding, "14 eur", " night", " ferry").score == 0.0  # that is past
    assert quote(grounding, "14", "ferry").score == grounding.min_score  # no word of its own
    assert grounding.end_score(quote(grounding, "6 euro")) == grounding.min_score
    grounding = SentenceScores((*PASSAGES, "One night ferry costs a euro."), QUESTION)
    assert grounding.end_score(quote(grounding, "euro")) == 0.0 > grounding.end_score(quote(grounding, "14 euro"))


def test_part_of_a_number_is_half_a_word():
    grounding = SentenceScores(
        ("The harbour costs 1,684,000.50 euros, the ferry 14, and 1,5 of it is paid.",), QUESTION
    )
    for part in ("1", "1,", "1,684", "1,684,000.", "684"):
        assert grounding.end_score(quote(grounding, part)) == grounding.min_score, part
    assert grounding.end_score(quote(grounding, "1,684,000.50")) == grounding.end_score(quote(grounding, "14")) == 0.0
    assert quote(grounding, "14", ",5").score == grounding.min_score


def test_nothing_is_no_answer_and_nothing_said_yet_has_lost_nothing():
    grounding = SentenceScores(PASSAGES, QUESTION)
    assert QuoteState().score == quote(grounding, "\n").score == 0.0
    assert grounding.end_score(QuoteState()) == grounding.end_score(quote(grounding, "\n")) == grounding.min_score


def test_what_was_said_before_may_be_the_answer_again():
    passages, before = ("Ingrid Dahl is captain on the North Route.",), "Who has the Tern? Ingrid Dahl."
    asked = f"{before} And who is captain on the North Route?"
    assert SentenceScores(passages, asked).end_score(quote(SentenceScores(passages, asked), "Ingrid Dahl")) < 0.0
    grounding = SentenceScores(passages, asked, "And who is captain on the North Route?")
    assert grounding.end_score(quote(grounding, "Ingrid Dahl")) == 0.0


def test_a_choice_is_answered_with_words_of_the_question():
    passages = ("Bern Oster was born in 1961. Anna Vale was born in 1958.",)
    grounding = SentenceScores(passages, "Who was born first, Bern Oster or Anna Vale?")
    assert grounding.end_score(quote(grounding, "Anna Vale")) == quote(grounding, "Anna Vale").score > grounding.min_score


@given(st.integers(len("The p"), len(NO_ANSWER)))
def test_to_say_that_the_passages_do_not_say_loses_nothing(cut):
    grounding = SentenceScores(PASSAGES, QUESTION)
    begun = quote(grounding, NO_ANSWER[:cut])
    assert begun.score == 0.0
    made = grounding.advance(begun, NO_ANSWER[cut:])
    assert made.score == grounding.end_score(made) == 0.0
    assert quote(grounding, " The", " passages", " have").score == grounding.min_score
    assert worth("The", "Do classes pay?") == worth("The castle", "Do classes pay?") < 0.0


def test_signs_before_a_word_are_not_part_of_it():
    """Llama's and Qwen's tokenizers cut '(Kes' and '-based' as one."""
    grounding = SentenceScores(('The night ferry ("Kestrel") costs 14 euros.', CASTLE), QUESTION)
    for pieces in (("Kes", "trel"), ("(Kes", "trel"), (' "Kes', "trel", '"')):
        assert quote(grounding, *pieces).score == grounding.end_score(quote(grounding, *pieces)) == 0.0, pieces
    assert quote(grounding, "14", "-zebra").score == grounding.min_score


def test_an_answer_may_go_on_with_another_quote():
    grounding = SentenceScores(PASSAGES, QUESTION)
    assert quote(grounding, "14", ",", " nine").score == quote(grounding, "nine").score
    assert quote(grounding, "14", ",").score == 0.0
    assert quote(grounding, "6", ",").score == quote(grounding, "6").score < 0.0


def test_texts_without_spaces_between_words_are_quoted_from_any_character():
    text = "\u6e21\u8f6e\u7968\u4ef7\u5341\u56db\u6b27\u5143\u3002\u57ce\u5821\u4e5d\u70b9\u5f00\u95e8\u3002"
    grounding = SentenceScores((text,), "\u6e21\u8f6e\u7968\u4ef7\u591a\u5c11?")
    assert quote(grounding, text[4], text[5:8]).score == 0.0 == grounding.end_score(quote(grounding, text[4:6]))
    assert quote(grounding, "\u4e5d\u70b9").score < 0.0


@given(st.data())
def test_a_quote_is_worth_its_best_place_however_it_is_cut_into_pieces(data):
    """Independent: find every place by its first character, and take the worth of the whole sentence around it."""
    grounding, whole = SentenceScores(PASSAGES, QUESTION), " ".join(PASSAGES)
    starts = [at for at in range(len(whole)) if whole[at].isalnum() and not (at and whole[at - 1].isalnum())]
    start = data.draw(st.sampled_from(starts))
    end = data.draw(st.integers(start + 1, whole.index(".", start)))
    cuts = sorted(data.draw(st.sets(st.integers(start + 1, end))) | {start, end})
    made = quote(grounding, *(whole[a:b] for a, b in itertools.pairwise(cuts)))
    places = [at for at in starts if whole.startswith(whole[start:end], at)]
    around = [whole[whole.rfind(".", 0, at) + 1 : whole.index(".", at)].strip() for at in places]
    assert made.score == max(quote(grounding, sentence).score for sentence in around)


@given(st.integers(0, 10_000))
def test_the_choice_is_the_best_of_the_whole_vocabulary(seed):
    """Independent: weigh every token, none left out for being too unlikely."""
    generator = torch.Generator().manual_seed(seed)
    grounding = SentenceScores(PASSAGES, QUESTION)
    chooser = GroundedSampler(SamplingParams().sampler(), grounding, PROMPT.tokenizer.decode, PROMPT.stop_ids)
    said, tokens = QuoteState(), list[int]()
    for _ in range(6):
        logits = 2 * torch.randn(VOCABULARY, generator=generator)
        weighed = logits.clone()
        for token in range(len(logits)):
            piece = PROMPT.tokenizer.decode([*tokens, token])[len(said.text) :]
            if token in PROMPT.stop_ids:
                weighed[token] += SENTENCE_WEIGHT * grounding.end_score(said)
            else:
                weighed[token] += SENTENCE_WEIGHT * (said if "\ufffd" in piece else grounding.advance(said, piece)).score
        token = chooser.sample(logits)
        assert token == int(weighed.argmax())
        piece = PROMPT.tokenizer.decode([*tokens, token])[len(said.text) :]
        if token in PROMPT.stop_ids or "\ufffd" in piece:
            return
        said, tokens = grounding.advance(said, piece), [*tokens, token]


def test_a_character_of_several_tokens_is_quoted_once_it_is_whole():
    passages = ("The night ferry sails to \u00c6r\u00f8. Another sails to \u00c6lvdal.",)
    grounding = SentenceScores(passages, "Where does the night ferry sail?")
    chooser = GroundedSampler(SamplingParams().sampler(), grounding, PROMPT.tokenizer.decode, PROMPT.stop_ids)
    island = PROMPT.tokenizer.encode("\u00c6r\u00f8").ids
    assert len(island) > 3
    for token in island:
        logits = torch.zeros(VOCABULARY)
        logits[token] = 50.0
        assert chooser.sample(logits) == token
    logits = torch.zeros(VOCABULARY)
    logits[STOP] = 0.1
    assert chooser.sample(logits) == STOP


def chosen_behind(pieces, text_of, behind):
    """Return what is chosen behind some pieces where the stop token leads by half a nat over another."""
    grounding = SentenceScores(("The night ferry to \u00c6r\u00f8 costs 14 euros.", CASTLE), QUESTION)
    chooser = GroundedSampler(SamplingParams().sampler(), grounding, text_of, frozenset({0}))
    for token in pieces:
        logits = torch.full((300,), -50.0)
        logits[token] = 50.0
        assert chooser.sample(logits) == token
    logits = torch.full((300,), -50.0)
    logits[0], logits[behind] = 0.5, 0.0
    return chooser.sample(logits)


WORDS = ["", " 14", " euros", " eur", "os", " nine", " The", " ferry", " costs"]


@pytest.mark.parametrize(
    ("said", "behind", "ends"),
    [([], 1, False), ([1, 2], 8, True), ([1, 3], 4, False), ([6, 7], 8, False), ([1], 2, True)],
    ids=["nothing", "the answer", "half a word", "an echo", "one that may go on"],
)
def test_an_answer_ends_where_it_is_one(said, behind, ends):
    """Words as SentencePiece cuts them: a text begins without the space of its first piece."""
    text_of = lambda ids: "".join(WORDS[token] for token in ids).removeprefix(" ")  # noqa: E731
    assert (chosen_behind(said, text_of, behind) == 0) == ends


def test_characters_of_bytes_are_quoted_one_behind_the_other():
    """Bytes as Llama 2's tokenizer falls back to: a run of them is text only once all of it is."""
    text_of = lambda ids: bytes(ids).decode(errors="replace")  # noqa: E731
    said = "ferry to \u00c6r\u00f8".encode()
    assert chosen_behind(list(said), text_of, 0xC3) == 0  # a whole word: the stop token loses nothing
    assert chosen_behind(list(said[:-2]), text_of, 0xC3) == 0xC3  # half a word, which that byte may end


def test_what_cannot_win_is_lowered_by_all_that_can_be():
    """Independent: the chance of the far token where both are weighed by hand."""
    grounding = SentenceScores(PASSAGES, QUESTION)
    near, far = (PROMPT.tokenizer.encode(text).ids[0] for text in ("14", "9"))
    reach = -SENTENCE_WEIGHT * grounding.min_score
    logits = torch.full((VOCABULARY,), -1e4)
    logits[near], logits[far] = 0.0, -reach - 1
    drawn = []
    for seed in range(400):
        sampling = SamplingParams(5.0, seed=seed).sampler()
        drawn.append(GroundedSampler(sampling, grounding, PROMPT.tokenizer.decode, PROMPT.stop_ids).sample(logits))
    expected = torch.tensor([0.0, (-2 * reach - 1) / 5]).softmax(0)[1]
    assert drawn.count(far) / len(drawn) == pytest.approx(float(expected), abs=0.06)
    assert set(drawn) == {near, far}


def test_sampling_draws_from_the_weighed_logits():
    grounding = SentenceScores(PASSAGES, QUESTION)
    right, wrong = (PROMPT.tokenizer.encode(text).ids[0] for text in ("14", "9"))
    logits = torch.full((VOCABULARY,), -30.0)
    logits[[right, wrong]] = 1.0
    drawn = []
    for seed in range(300):
        sampling = SamplingParams(1.0, seed=seed).sampler()
        drawn.append(GroundedSampler(sampling, grounding, PROMPT.tokenizer.decode, PROMPT.stop_ids).sample(logits))
    expected = torch.tensor([0.0, SENTENCE_WEIGHT * grounding.min_score]).softmax(0)[0]
    assert drawn.count(right) / len(drawn) == pytest.approx(float(expected), abs=0.08)
    assert set(drawn) == {right, wrong}


def test_the_engine_writes_what_its_chooser_chooses(monkeypatch):
    """Independent: transformers' own forward pass over the whole prompt for each token."""
    monkeypatch.setattr("engine.generation.grounded_sampler.SENTENCE_WEIGHT", 40.0)  # a random model is hard to move
    request = Request("When does the Old Kestrel sail to Port Arden?", method="full", passages=2, max_new_tokens=8)
    request = replace(request, temperature=2.0, seed=3)
    made = engine("ferry", "tern")
    *_, free = made.ask(request)
    made.grounding = GroundingModel()
    *_, answer = made.ask(request)
    assert answer.text != free.text
    reading = made.prepare(request, Trace())
    grounding = SentenceScores(reading.texts, request.question)
    sampled = SamplingParams(2.0, request.top_p, 3).sampler()
    chooser = GroundedSampler(sampled, grounding, made.prompt.tokenizer.decode, made.prompt.stop_ids)
    said = list[int]()
    ids = [*made.prompt.prefix_ids, *(t for passage in reading.passages for t in passage.ids), *reading.suffix_ids]
    with torch.no_grad():
        while len(said) < 8 and not (said and said[-1] in made.prompt.stop_ids):
            said.append(chooser.sample(tiny.model()(torch.tensor([[*ids, *said]])).logits[0, -1]))
    whole = made.prompt.tokenizer.decode(said).rstrip("\ufffd").strip()  # the last character may lack its other bytes
    assert answer.text == cite(whole, reading.texts, request.question)[0]
    stages = [[stage.name for stage in each.trace.stages] for each in (free, answer)]
    assert [names.count("ground") for names in stages] == [0, 1]


class Reciting:
    """Chooses one text's tokens, whatever the model says."""

    def __init__(self):
        self._left = [*PROMPT.tokenizer.encode("at nine").ids, STOP]

    def sample(self, logits):
        return self._left.pop(0)


def test_a_comparison_and_the_page_write_what_the_engines_chooser_chooses(monkeypatch):
    made, question = engine("ferry", "tern"), "When does the Old Kestrel sail to Port Arden?"
    monkeypatch.setattr(made, "sampler", lambda *arguments: Reciting())
    compared = last(compare(made, CompareRequest(question, ("direct",), (0.2,), passages=2, max_new_tokens=8)))
    assert [outcome.answer for outcome in compared.outcomes] == ["at nine"] * 2
    assert last(made.ask(Request(question, passages=2, max_new_tokens=8))).text == "at nine"


def test_a_follow_up_is_told_from_what_it_leans_on(monkeypatch):
    made = engine("ferry", "tern")
    earlier = (ChatTurn("When does the Old Kestrel sail?", "At nine.", ()),)
    reading = made.prepare(Request("And where does it go?", history=earlier), Trace())
    assert reading.original_question == "And where does it go?" != reading.standalone_question
    assert reading.standalone_question.endswith(reading.original_question) and "At nine" in reading.standalone_question
    given = []
    monkeypatch.setattr(
        grounded, "SentenceScores", lambda *arguments: given.append(arguments) or SentenceScores(*arguments)
    )
    made.grounding = GroundingModel()
    made.sampler(reading, Trace(), SamplingParams())
    assert (
        given == [(reading.texts, reading.standalone_question, reading.original_question, None)]
        and len(reading.texts) == 2
    )


@pytest.mark.parametrize(("reader", "held"), [("folder", True), ("off", False)])
def test_only_readers_that_were_taught_to_quote_are_held_to_the_passages(monkeypatch, tmp_path, reader, held):
    monkeypatch.setattr(startup, "resolve", lambda *arguments: tmp_path)
    monkeypatch.setattr(startup, "load_decoder", lambda *arguments: tiny.decoder())
    config = ModelConfig(tmp_path, "tiny", "tiny", device="cpu", dtype="fp32", lora_adapter=reader, span_scorer="off")
    assert (load_models(config).grounding is not None) is held
    assert (bare.open_engine(config).grounding is not None) is held
    assert bare.open_engine(config, grounding="off").grounding is None
