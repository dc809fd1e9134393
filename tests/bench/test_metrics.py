"""Scores against values worked out by hand, and the laws that every metric keeps."""

import pytest

from bench.metrics import METRICS, normalise, words_zh
from engine.prompt.template import NO_ANSWER


def test_normalising_drops_case_punctuation_articles_and_extra_space():
    assert normalise("The  Quick, brown-fox; an apple\n") == "quick brownfox apple"


def test_exact_asks_for_the_whole_answer_and_nothing_more():
    assert METRICS["exact"]("the Exeter College.", ["Oxford", "Exeter College"]) == 1
    assert METRICS["exact"]("It was Exeter College", ["Exeter College"]) == 0


@pytest.mark.parametrize(
    ("prediction", "answers", "score"),
    [
        ("Denver Broncos", ["Denver Broncos"], 1.0),
        ("It was the Denver Broncos", ["Denver Broncos"], 2 / 3),  # 2 of 4 words, 2 of 2: 2 * .5 * 1 / 1.5
        ("Denver", ["Denver Broncos", "Denver"], 1.0),  # the best answer counts
        ("no no no", ["no"], 0.5),  # a word counts as often as it stands in both: 1 of 3, 1 of 1
        ("Carolina", ["Denver"], 0.0),
        ("", ["Denver"], 0.0),
        ("the", ["a"], 0.0),
    ],
)
def test_f1_is_the_harmonic_mean_over_words(prediction, answers, score):
    assert METRICS["f1"](prediction, answers) == pytest.approx(score)


def test_chinese_f1_counts_words_and_no_punctuation():
    assert words_zh("\u53a6\u95e8\u5927\u5b66\u3002") == ["\u53a6\u95e8\u5927\u5b66"]  # one word, the stop gone
    score = METRICS["f1_zh"]
    university = "\u53a6\u95e8\u5927\u5b66"
    assert score(university, [f"{university}\u3002"]) == 1
    assert score(f"\u5728{university}\uff0c", [university]) == pytest.approx(2 / 3)  # 'in' and the name: 1 of 2, 1 of 1
    assert score("\u5317\u4eac", [university]) == 0


def test_chinese_words_come_without_a_word_on_the_terminal_or_a_file_in_tmp(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    words_zh("\u7f8e\u56fd\u6587\u5b66")
    assert not list(tmp_path.iterdir())
    assert capfd.readouterr() == ("", "")


def test_rouge_l_is_the_longest_common_subsequence():
    # 'the cat sat' in 'the cat on the mat sat': 3 words of 3, and of the 5 different ones there: F = 2 * 3 / (3 + 5)
    assert METRICS["rouge_l"]("the cat sat", ["the cat on the mat sat"]) == pytest.approx(0.75, abs=1e-6)
    assert METRICS["rouge_l"]("the cat sat", ["dogs", "the cat sat"]) == pytest.approx(1, abs=1e-6)


def test_rouge_of_chinese_counts_words_as_jieba_cuts_them():
    prediction, wanted = "\u53a6\u95e8\u5927\u5b66\u5728\u53a6\u95e8", "\u53a6\u95e8\u5927\u5b66\u7f8e\u56fd"
    assert 0 < METRICS["rouge_zh"](prediction, [wanted]) < 1 and METRICS["rouge_zh"](
        prediction, [prediction]
    ) == pytest.approx(1)
    assert METRICS["rouge_l"](prediction, [wanted]) == 0  # without spaces it is one word


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("nothing", ["", " ", ".", "...\n"])
def test_an_empty_answer_scores_zero(name, nothing):
    assert METRICS[name](nothing, ["Denver"]) == 0


@pytest.mark.parametrize("name", [name for name in METRICS if name != "not_there"])
def test_the_reference_itself_scores_one_in_any_order_of_references(name):
    assert METRICS[name]("Denver Broncos", ["Denver Broncos"]) == pytest.approx(1, abs=1e-6)
    answers = ["Carolina Panthers", "Denver", "in Denver"]
    assert METRICS[name]("Denver it was", answers) == METRICS[name]("Denver it was", answers[::-1])


def test_contains_looks_for_whole_words_but_goes_inside_chinese():
    assert METRICS["contains"]("I think it was Denver, Colorado.", ["denver"]) == 1
    assert METRICS["contains"]("nobody knows", ["no"]) == 0
    assert METRICS["contains"]("\u5728\u53a6\u95e8\u5927\u5b66\u4e3e\u529e", ["\u53a6\u95e8\u5927\u5b66"]) == 1
    assert METRICS["contains"]("anything", ["..."]) == 0


def test_chinese_is_exact_and_contained_whatever_its_punctuation():
    assert METRICS["exact_zh"]("北京。", ["上海", "北京"]) == 1 and METRICS["exact_zh"]("北京市", ["北京"]) == 0
    assert METRICS["contains"]("作者写了“红楼梦”", ["《红楼梦》"]) == 1
    assert METRICS["contains"]("1998\u20132004", ["1998"]) == METRICS["contains"]("Dahl\u2019s", ["dahl's"]) == 1


def test_long_texts_have_a_rouge():
    prediction = " ".join(f"w{number}" for number in range(1500))
    assert METRICS["rouge_l"](prediction, [prediction]) == pytest.approx(1)
    assert METRICS["rouge_l"]("w1 w2 w3", [prediction]) < 0.01


def test_recall_is_the_share_of_the_references_that_are_found():
    assert METRICS["recall"]("They are 123, ABC and 9.", ["123", "abc", "777", "888"]) == 0.5


@pytest.mark.parametrize(
    ("prediction", "right"),
    [
        (NO_ANSWER, 1.0),
        ("The passages do not mention who built it.", 1.0),
        ("There is no information about that.", 1.0),
        ("The answer cannot be found here.", 1.0),
        ("The passages don\u2019t say.", 1.0),
        ("It is not in the passages.", 1.0),
        ("The answer is unknown.", 1.0),
        ("The Old Kestrel.", 0.0),
        ("Not until 1998", 0.0),
        ("Not there in the text", 1.0),
        ("Unknown.", 1.0),
        ("An unknown sailor", 0.0),
        ("In 1998, not 1999 as in the text", 0.0),
    ],
)
def test_not_there_accepts_only_refusals(prediction, right):
    assert METRICS["not_there"](prediction, ()) == right
