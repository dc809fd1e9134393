"""Quotes from the passages: which ones answer a question, and how certain an answer is."""

import re

import pytest
import torch

from engine.generation.evidence import Evidence, format_quotes
from engine.generation.span_scorer import SpanScores, Window
from engine.model.tokenizer import TokenizedText
from engine.prompt.pack import PreparedPrompt
from engine.prompt.question_kind import QuestionKind
from engine.request import Quote
from store.types import Chunk, Hit

MANUAL = """manual > Pump > Care

## Cleaning

Clean the pump as follows:

1. Switch it off.
2. Rinse the sieve.

The warranty ends after two years. Oil it once a month.

| Model: A10 | Weight: 151 kg |
| Model: B20 | Weight: 160 kg |"""
OTHER = "It is blue. The warranty ends after three years."


class Scorer:
    """Gives each of `parts` an equal share of `probability`, at its first and last word."""

    def __init__(self, *parts, probability=0.9):
        self.parts = parts
        self.probability = probability

    def score(self, question, texts, cancel=None):
        windows, rows = [], []
        for passage, text in enumerate(texts):
            words = [match.span() for match in re.finditer(r"\w+|[^\w\s]", text)]
            windows.append(Window(passage, tuple(range(len(words))), tuple(words)))
            rows.append(torch.full((2, 100), 1e-9))
            rows[-1][:, len(words) :] = 0.0
            for part in self.parts:
                if (at := text.find(part)) >= 0:
                    inside = [i for i, (start, end) in enumerate(words) if start < at + len(part) and end > at]
                    for edge, piece in ((0, inside[0]), (1, inside[-1])):
                        rows[-1][edge, piece] += self.probability / len(self.parts)
        starts, ends = torch.stack(rows).log().unbind(1)
        return SpanScores(tuple(windows), starts, ends, 1 - self.probability)


def evidence(question, scorer, *texts, documents=("manual", "other")):
    hits = [
        Hit(
            Chunk(f"{name}-0", name, name, 0, None, 0, 1, text, text.partition("\n")[0] if text == MANUAL else ""),
            1,
            1,
            True,
        )
        for name, text in zip(documents, texts, strict=False)
    ]
    passages = tuple(TokenizedText((0,), ((0, 1),)) for _ in texts)
    return Evidence(scorer, PreparedPrompt(texts, passages, question, question, (0,), 8, tuple(hits)))


def texts_of(quotes):
    return [quote.text for quote in quotes]


def test_a_fact_is_left_to_the_model_and_supported_by_its_sentence():
    found = evidence("How long is the warranty?", Scorer("two years", "Oil"), MANUAL, OTHER)
    assert found.has_answer and found.quoted_answer() == []
    (quote,) = found.supporting("two years")
    assert (quote.text, quote.rank, quote.document) == ("The warranty ends after two years.", 1, "manual")
    assert MANUAL[quote.start : quote.end] == quote.text


def test_a_table_cell_is_supported_by_its_row():
    (quote,) = evidence("How heavy is the A10?", Scorer("151 kg"), MANUAL).supporting("151 kg")
    assert quote.text == "| Model: A10 | Weight: 151 kg |"
    assert format_quotes([quote]) == "Model: A10; Weight: 151 kg [1]"


def test_the_cell_of_the_best_table_row_is_the_answer_to_a_fact_question():
    text, row = evidence("How heavy is the A10?", Scorer("151 kg"), MANUAL).table_cell()
    assert (text, row.text) == ("151 kg", "| Model: A10 | Weight: 151 kg |")
    assert evidence("How long is the warranty?", Scorer("two years"), MANUAL).table_cell() is None
    assert evidence("List the weights.", Scorer("151 kg"), MANUAL).table_cell() is None


@pytest.mark.parametrize("part", ["Rinse", "Clean the pump"])
def test_steps_are_quoted_to_their_end_also_if_the_line_above_them_was_found(part):
    quotes = evidence("How do I clean it?", Scorer(part), MANUAL).quoted_answer()
    assert texts_of(quotes) == ["1. Switch it off.\n2. Rinse the sieve."]


def test_a_list_question_without_a_list_gets_the_sentence():
    assert texts_of(evidence("List the colours.", Scorer("blue"), OTHER).quoted_answer()) == ["It is blue."]


def test_a_yes_no_question_gets_the_sentence_that_decides_it():
    quotes = evidence("Is it blue?", Scorer("blue"), MANUAL, OTHER).quoted_answer()
    assert texts_of(quotes) == ["It is blue."] and quotes[0].rank == 2


def test_a_comparison_quotes_both_documents():
    found = evidence("How did the warranty change?", Scorer("two years", "three years"), MANUAL, OTHER)
    assert found.kind is QuestionKind.COMPARISON
    assert [(quote.document, quote.rank) for quote in found.quoted_answer()] == [("manual", 1), ("other", 2)]


def test_two_questions_in_one_get_two_quotes():
    class ByQuestion:
        def score(self, question, texts, cancel=None):
            return Scorer("blue" if "colour" in question else "three").score(question, texts)

    found = evidence("How long is the warranty, and which colour does the pump have?", ByQuestion(), OTHER)
    assert texts_of(found.quoted_answer()) == ["The warranty ends after three years.", "It is blue."]


def test_a_summary_quotes_sentences_of_one_document_in_their_order():
    text = " ".join(f"The harbour ferry number {n} carries many cars to the old town." for n in range(8))
    quotes = evidence("Summarize it.", Scorer(), text, OTHER).quoted_answer()
    assert len(quotes) == 5 and {quote.rank for quote in quotes} == {1}
    assert [quote.start for quote in quotes] == sorted(quote.start for quote in quotes)


def test_without_an_answer_the_closest_quotes_are_shown():
    found = evidence("Who sings?", Scorer("blue", probability=0.1), MANUAL, OTHER)
    assert not found.has_answer
    assert found.closest()[0].text == "It is blue."


def test_the_context_before_a_chunk_and_headings_are_never_quoted():
    for part in ("Pump > Care", "## Cleaning"):
        for quote in evidence("Is it blue?", Scorer(part), MANUAL).quoted_answer():
            assert part not in quote.text


def test_confidence_is_the_probability_that_the_answers_words_are_inside_the_span():
    found = evidence("How long is the warranty?", Scorer("two years", probability=0.8), MANUAL, OTHER)
    assert found.confidence("two years") == pytest.approx(0.8, abs=1e-3)
    assert found.confidence("three days") == pytest.approx(0.0, abs=1e-3)
    assert found.confidence("two days") == pytest.approx(0.4, abs=1e-3)


def test_several_lines_and_marks():
    quotes = [Quote(1, 0, 9, "- a\n- b"), Quote(2, 0, 9, "c")]
    assert format_quotes(quotes) == "- a\n- b [1]\nc [2]"
