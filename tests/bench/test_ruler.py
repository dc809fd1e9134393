"""RULER samples: the needles are in the text, the length is as requested, and generation is deterministic."""

import re
from collections import Counter

import pytest

from bench.errors import InvalidDataset
from bench.ruler.generate import TASKS, generate, largest_fitting
from bench.ruler.haystack import read_haystack, split_sentences, strip_markdown
from bench.ruler.words import ADJECTIVES, NOUNS
from store.ingest.chunker import ChunkConfig, split
from tests.support import tiny

TOKENS = 3000  # of the tiny tokenizer, which takes three or four for a word
TEXT = ("niah_single_2", "niah_single_3", "niah_multikey_1", "niah_multivalue", "niah_multiquery")
NEEDLE = re.compile(r"One of the special magic (number|uuid)s for (\S+) is: (\S+)\.")
ASKED = re.compile(r"for (.+) mentioned in the provided text\?$")


@pytest.fixture(scope="module")
def tokenizer():
    return tiny.tokenizer().backend_tokenizer


@pytest.fixture(scope="module")
def measure(tokenizer):
    return lambda passage: len(tokenizer.encode(passage, add_special_tokens=False).ids)


@pytest.fixture(scope="module")
def make_items(tokenizer, measure):
    """A function that generates items whose passages are split as the library splits documents."""

    def make(task, count=3, tokens=TOKENS, seed=0, chunk=512, overlap=0):
        def cut(text):
            return [text[start:end] for start, end in split(text, tokenizer, ChunkConfig(chunk, overlap))]

        return list(generate(task, tokens, count, seed, measure, cut, read_haystack(None)))

    return make


def needles(item):
    """The (key, value) pairs in an item's passages, each once."""
    return {(key, value) for passage in item.passages for _, key, value in NEEDLE.findall(passage)}


@pytest.mark.parametrize("task", TASKS)
def test_no_sample_exceeds_the_requested_length_and_none_is_much_shorter(task, make_items, measure):
    for overlap in (0, 50):
        for item in make_items(task, 2, overlap=overlap):
            length = sum(map(measure, item.passages))
            assert (0.95 if task in TEXT else 0.9) * TOKENS <= length <= TOKENS


@pytest.mark.parametrize("task", [task for task in TASKS if task.startswith("niah")])
def test_the_answers_are_the_values_of_the_queried_keys(task, make_items):
    for item in make_items(task):
        found = needles(item)
        asked = re.split(r", and |, ", ASKED.search(item.question)[1])
        assert item.answers == tuple(value for key in asked for value in item.answers if (key, value) in found)
        assert {value for key, value in found if key in asked} == set(item.answers)
        end = "is" if len(item.answers) == 1 else "are"
        assert re.fullmatch(
            rf"The special magic (number|uuid)s? for .+ mentioned in the provided text {end}", item.opening
        )
        assert all(key in item.opening for key in asked)


@pytest.mark.parametrize(
    ("task", "keys", "answers", "value"),
    [
        ("niah_single_1", 1, 1, r"\d{7}"),
        ("niah_single_2", 1, 1, r"\d{7}"),
        ("niah_single_3", 1, 1, r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
        ("niah_multikey_1", 4, 1, r"\d{7}"),
        ("niah_multivalue", 1, 4, r"\d{7}"),
        ("niah_multiquery", 4, 4, r"\d{7}"),
    ],
)
def test_a_task_hides_as_many_keys_and_values_as_the_paper_says(task, keys, answers, value, make_items):
    for item in make_items(task):
        assert len({key for key, _ in needles(item)}) == keys
        assert len(set(item.answers)) == answers
        assert all(re.fullmatch(value, answer) for answer in item.answers)


@pytest.mark.parametrize("task", ["niah_multikey_2", "niah_multikey_3"])
def test_a_haystack_of_needles_contains_only_needles_and_the_queried_key_once(task, make_items):
    for item in make_items(task):
        lines = [line for passage in item.passages for line in passage.split("\n")]
        assert all(NEEDLE.fullmatch(line) for line in lines)
        assert Counter(NEEDLE.fullmatch(line)[2] for line in lines)[ASKED.search(item.question)[1]] == 1
        assert len(lines) > 20


def test_no_other_needle_has_the_queried_key_even_when_keys_run_out(make_items, monkeypatch):
    monkeypatch.setattr("bench.ruler.words.NOUNS", ["tree"])
    monkeypatch.setattr("bench.ruler.words.ADJECTIVES", ["red", "green", "blue"])
    for item in make_items("niah_multikey_2"):
        asked = ASKED.search(item.question)[1]
        assert {value for key, value in needles(item) if key == asked} == set(item.answers)


def test_needles_in_text_stand_between_whole_sentences(make_items):
    own = set(split_sentences(read_haystack(None)))
    for item in make_items("niah_multivalue"):
        rest = split_sentences(NEEDLE.sub("", " ".join(item.passages)))
        assert set(rest[:-1]) <= own  # the last may be torn: the text ends where the length is reached


def test_no_word_is_listed_twice_or_damaged_and_no_common_word_is_part_of_another():
    assert sorted(ADJECTIVES) == ADJECTIVES and sorted(NOUNS) == NOUNS
    words = [*ADJECTIVES, *NOUNS]
    assert len(set(words)) == len(words)
    assert not [(short, long) for short in words for long in words if short != long and short in long]


def test_depths_differ_from_sample_to_sample(make_items):
    depths = set()
    for item in make_items("niah_single_2", 12):
        text = " ".join(item.passages)
        depths.add(round(10 * text.index(item.answers[0]) / len(text)))
    assert len(depths) > 3


def test_samples_start_at_different_places_of_the_haystack(make_items):
    starts = {NEEDLE.sub("", item.passages[0])[:60] for item in make_items("niah_single_2", 12)}
    assert len(starts) == 12


def test_a_chain_of_variables_leads_from_the_value_to_every_answer_in_order(make_items):
    for item in make_items("variable_tracking"):
        value = re.search(r"the value (\d{5}) ", item.question)[1]
        said = re.findall(r"VAR (\S+) = (?:VAR )?(\S+)", "\n".join(item.passages))
        assert len(said) == 5
        assert tuple(name for name, _ in said) == item.answers
        assert [from_ for _, from_ in said] == [value, *item.answers[:-1]]


@pytest.mark.parametrize(("tokens", "often", "seldom"), [(TOKENS, 6, 1), (8000, 30, 3)])
def test_the_common_words_are_ten_and_stand_as_often_as_the_paper_says(tokens, often, seldom, make_items):
    for item in make_items("common_words", 1, tokens):
        listed = [pair for passage in item.passages for pair in re.findall(r"(\d+)\. ([a-z]+)", passage)]
        assert [int(number) for number, _ in listed] == list(range(1, len(listed) + 1))
        counts = Counter(word for _, word in listed)
        assert {word for word, count in counts.items() if count == often} == set(item.answers)
        assert {count for word, count in counts.items() if word not in item.answers} == {seldom}
        assert len(item.answers) == 10


@pytest.mark.parametrize("task", TASKS)
def test_a_sample_depends_on_its_number_and_not_on_how_many_are_made(task, make_items):
    few, many = make_items(task, 2), make_items(task, 3)
    assert many[:2] == few
    assert len({item.id for item in many}) == len({item.answers for item in many}) == 3
    assert make_items(task, 1, seed=1)[0].answers != few[0].answers


@pytest.mark.parametrize("chunk", [100, 160])
def test_small_passages_hold_whole_needles_too(chunk, make_items):
    for task in ("niah_multiquery", "variable_tracking", "niah_single_1"):
        for item in make_items(task, chunk=chunk, overlap=20):
            assert all(any(answer in passage for passage in item.passages) for answer in item.answers)
            if task == "niah_multiquery":
                assert {value for _, value in needles(item)} == set(item.answers)


def test_passages_too_short_for_a_needle_are_refused(make_items):
    with pytest.raises(ValueError, match="passages are too short for niah_single_3: they split 'One of"):
        make_items("niah_single_3", chunk=20)


@pytest.mark.parametrize("task", ["niah_multikey_1", "common_words"])
def test_too_few_tokens_are_refused(task, make_items):
    with pytest.raises(ValueError, match=f"40 tokens are too few for {task}"):
        make_items(task, tokens=40)


def test_a_haystack_comes_from_a_file_without_its_marks_or_from_the_samples(tmp_path):
    path = tmp_path / "essay.md"
    path.write_text("# On ferries\n\nThey **float**.\n\n| a | b |\n|---|---|\n\n- Some sink.\n2. Few fly.\n")
    assert " ".join(read_haystack(path).split()) == "On ferries They float. Some sink. Few fly."
    assert len(read_haystack(None)) > 10_000
    assert strip_markdown("a * b") == "a  b"


@pytest.mark.parametrize("content", [None, b"", b"# \n", b"\xff\xfe\x00"])
def test_a_haystack_without_text_is_rejected_with_its_name(tmp_path, content):
    path = tmp_path / "hay.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InvalidDataset, match=r"hay\.txt"):
        read_haystack(path)


def test_an_abbreviation_does_not_end_a_sentence():
    assert split_sentences("It rains, e.g. here.  Does it? Yes!\nSo") == [
        "It rains, e.g. here.",
        "Does it?",
        "Yes!",
        "So",
    ]


@pytest.mark.parametrize("start", [1, 16, 5000])
@pytest.mark.parametrize("most", [50, 333, 4096, 100_000])
def test_the_longest_that_fits_is_found_in_few_steps(most, start):
    for length in (lambda n: 40 + 5 * n, lambda n: 3 * n + 7 * (n % 4), lambda n: 10 + n + n * n // 1000):
        seen = []
        found = largest_fitting(lambda n, length=length, seen=seen: seen.append(n) or length(n), most, start)
        assert length(found) <= most
        assert length(found + 1) > most or length(found) >= most * (1 - 1 / 200) - 1
        assert len(seen) < 30
    assert largest_fitting(lambda n: most + 1 + n, most) is None
