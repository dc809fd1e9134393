"""Hard negatives: what search finds for a question, without the passages that answer it."""

from dataclasses import replace

import pytest

from tests.support.fakes import WordEmbedder
from training.data.corpus import Corpus, Paragraph
from training.data.hard_negatives import MAX_PARAGRAPHS, MAX_PASSAGES, hard_negatives

FERRY = Paragraph("The ferry carries 37 cars. It is blue.", (("How many cars on the ferry?", "37"),))
TRAIN = Paragraph("The train carries no cars. Dogs travel free.", (), ("What does the train cost?",))
OTHERS = tuple(Paragraph(f"House number {number} has a garden.") for number in range(8))
CORPUS = Corpus("travel", (*OTHERS[:4], FERRY, TRAIN, *OTHERS[4:]))


def test_the_passages_that_answer_are_left_out_and_the_closest_come_first():
    negatives = hard_negatives([CORPUS], WordEmbedder())
    assert set(negatives) == {"How many cars on the ferry?", "What does the train cost?"}
    of_ferry, of_train = negatives["How many cars on the ferry?"], negatives["What does the train cost?"]
    assert of_ferry[0] == TRAIN.text and FERRY.text not in of_ferry
    assert of_train[0] == TRAIN.text  # near misses are read with the passage that they are about
    assert len(of_ferry) == len(of_train) == MAX_PASSAGES


def test_an_answer_in_other_words_does_not_exclude_a_passage():
    ferry = replace(FERRY, questions=(("How many cars on the ferry?", "3"),))
    negatives = hard_negatives([Corpus("travel", (ferry, TRAIN))], WordEmbedder())
    assert set(negatives["How many cars on the ferry?"]) == {ferry.text, TRAIN.text}


@pytest.mark.parametrize("count", [MAX_PARAGRAPHS, MAX_PARAGRAPHS + 1])
def test_large_corpora_are_not_searched(count):
    corpus = Corpus("large", (FERRY, *(Paragraph(f"House {number}.") for number in range(count - 1))))
    assert bool(hard_negatives([corpus], WordEmbedder())) == (count <= MAX_PARAGRAPHS)
