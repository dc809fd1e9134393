"""Questions written about text: what trains the writer, and which of its questions are kept."""

import json
from dataclasses import replace

import pytest
import torch

from engine.builder import SPAN_SCORER
from engine.generation.span_scorer import SpanScorer
from engine.model.decoder import Decoder
from engine.model.encoder import load_minilm
from engine.prompt.template import PromptTemplate
from tests.support import tiny
from tests.support.boats import BOATS, PARAGRAPHS
from training import questions
from training.data.corpus import BadCorpus, Corpus, Paragraph
from training.loop import TrainingConfig
from training.lora import LoraAdapterConfig
from training.questions import QuestionConfig, WritingExamples, is_usable, write_questions
from training.span_scorer import answer_probabilities

CONFIG = QuestionConfig(
    lora=LoraAdapterConfig(2, 4),
    training=TrainingConfig(steps=2, batch_size=3, warmup_steps=1, checkpoint_steps=1),
    samples=2,
    batch_paragraphs=2,
)
HISTORY = (
    "The Keld yard was founded in 1921 by Mr Arden, who had built wooden boats before. Its first ferry carried seven "
    "cars across the sound. In 1954 the yard moved to the harbour of Brom, where it employs forty people today."
)
WRITTEN = ["1921\nWhen was the Keld yard founded?", "1921\nHow many people does the yard employ today?"]
TEXT = Corpus("text", (Paragraph(HISTORY, heading="Keld yard"), Paragraph("too short")))


def decoder():
    return Decoder(tiny.model(scale=1.0), tiny.tokenizer(), "tiny")


def write(out, corpora=(*BOATS[:1], TEXT), config=CONFIG):
    scorer = SpanScorer.load(SPAN_SCORER, *load_minilm(torch.float32))
    return write_questions(decoder(), scorer, corpora, out, config, lambda *progress: None)


@pytest.mark.parametrize(
    ("question", "answer", "expected"),
    [
        ("When was the yard founded?", "1921", True),
        ("when was the yard founded", "1921", True),
        ("When?", "1921", False),
        ("When was the yard founded?", "1922", False),
        ("When was the yard founded?", "", False),
        ("Who was Mr Arden in 1921?", "Mr Arden", False),
        ("What does it say about the yard?", HISTORY, False),
    ],
)
def test_usable_questions_have_a_short_verbatim_answer_that_they_do_not_tell(question, answer, expected):
    assert is_usable(HISTORY, question, answer) is expected


def test_the_writer_learns_an_answer_and_its_question_from_the_paragraph():
    prompt = PromptTemplate(tiny.tokenizer())
    example = WritingExamples(prompt, BOATS[:1], CONFIG)[7]
    (passage,) = example.passages
    (paragraph,) = [each for each in PARAGRAPHS if prompt.passage(each.text).ids == passage]
    written = {prompt.tokenizer.template.decode(list(ids)).strip() for _, ids in example.questions}
    assert written == {f"{answer}\n{question}" for question, answer in paragraph.questions}


def test_only_questions_that_the_span_scorer_answers_alike_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(questions, "_sample", lambda decoder, prompt, texts, config: [WRITTEN] * len(texts))
    counts = write(tmp_path / "questions.jsonl")
    assert counts == {"paragraphs": 1, "written": 2, "usable": 2, "kept": 1}
    (line,) = (tmp_path / "questions.jsonl").read_text().splitlines()
    qas = [{"question": "When was the Keld yard founded?", "answers": ["1921"]}]
    assert json.loads(line) == {"context": f"Keld yard\n{HISTORY}", "qas": qas}


def test_paragraphs_of_different_lengths_are_continued_as_each_by_itself(monkeypatch):
    monkeypatch.setattr(questions, "TOP_K", 1)  # greedy
    model, texts = decoder(), [HISTORY, "A short one.", HISTORY[:150]]
    prompt, config = PromptTemplate(model.tokenizer), replace(CONFIG, samples=1)
    together = questions._sample(model, prompt, texts, config)
    assert together == [each for text in texts for each in questions._sample(model, prompt, [text], config)]
    assert len({written for (written,) in together}) == 3


def test_an_answer_behind_what_is_read_trains_nothing(monkeypatch):
    monkeypatch.setattr(questions, "MAX_PASSAGE_TOKENS", 30)
    prompt = PromptTemplate(tiny.tokenizer())
    pairs = (("When was the yard founded?", "1921"), ("How many people work there?", "forty"))
    example = WritingExamples(prompt, [Corpus("yard", (Paragraph(HISTORY, pairs),))], CONFIG)[0]
    assert len(example.passages[0]) == 30 and len(example.questions) == 1


def test_text_and_questions_are_needed(tmp_path):
    for corpora in (BOATS[:1], [TEXT]):
        with pytest.raises(BadCorpus, match="are needed"):
            write(tmp_path / "questions.jsonl", corpora)


def test_probabilities_are_those_of_the_scores():
    scorer = SpanScorer.load(SPAN_SCORER, *load_minilm(torch.float32))
    question = "When was the Keld yard founded?"
    probabilities = answer_probabilities(
        scorer, [(HISTORY, question, "1921"), (HISTORY, question, "1999"), (HISTORY, question, "1954")]
    )
    best = scorer.score(question, [HISTORY]).best
    assert HISTORY[best.start : best.end] == "1921"
    assert probabilities[0] == pytest.approx(best.probability, rel=1e-3)
    assert probabilities[1] == 0.0 and probabilities[2] < 0.1 * probabilities[0]


def test_questions_whose_answers_are_not_read_are_none_to_train_with(tmp_path, monkeypatch):
    """Drawing an example of them did not end."""
    monkeypatch.setattr(questions, "MAX_PASSAGE_TOKENS", 5)
    unread = Corpus("yard", (Paragraph(HISTORY, (("How many people work there?", "forty"),)),))
    with pytest.raises(BadCorpus, match="are needed"):
        write(tmp_path / "questions.jsonl", (unread, TEXT))
