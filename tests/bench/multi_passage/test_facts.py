"""Hops, definitions and tables: a reader that knows only the wordings derives every answer from the passages."""

import re
from collections import Counter
from random import Random

import pytest

from bench.multi_passage.facts import TwoFacts

# Question, and the sentences that name the bridge and the answer; S stands for the subject, B for the bridge.
HOPS = [
    (
        r"Who owns the building where the (.+) is kept\?",
        [r"The S is kept in the (.+)\.", r"The (.+) houses the S\."],
        [r"The B belongs to (.+)\.", r"(.+) owns the B\."],
    ),
    (
        r"In which town is the building where the (.+) was found\?",
        [r"The S was found in the (.+)\.", r"Workers found the S in the (.+)\."],
        [r"The B is located in (.+)\.", r"The B is a building in (.+)\."],
    ),
    (
        r"In which town is the head office of the company that (.+) works for\?",
        [r"S works for (.+)\.", r"(.+) employs S\."],
        [r"B has its head office in (.+)\.", r"The head office of B is in (.+)\."],
    ),
    (
        r'In which town was the author of the novel "(.+)" born\?',
        [r'The novel "S" was written by (.+)\.', r'(.+) is the author of the novel "S"\.'],
        [r"B was born in (.+)\.", r"(.+) is the birthplace of B\."],
    ),
    (
        r"In which town does the captain of the ferry (.+) live\?",
        [r"The captain of the ferry S is (.+)\.", r"(.+) is the captain of the ferry S\."],
        [r"B lives in (.+)\.", r"The home of B is in (.+)\."],
    ),
    (
        r"What is the phone extension of the person who leads the (.+) project\?",
        [r"The S project is led by (.+)\.", r"(.+) leads the S project\."],
        [r"The phone extension of B is (\d+)\.", r"B has the phone extension (\d+)\."],
    ),
    (
        r"In which year was the parent company of (.+) founded\?",
        [r"S is a subsidiary of (.+)\.", r"(.+) is the parent company of S\."],
        [r"B was founded in (\d{4})\.", r"The year of the foundation of B is (\d{4})\."],
    ),
    (
        r'In which year did the museum with the painting "(.+)" open\?',
        [r'The painting "S" hangs in the (.+)\.', r'The (.+) shows the painting "S"\.'],
        [r"The B opened in (\d{4})\.", r"The B was opened in (\d{4})\."],
    ),
]
DEFINED = [
    (
        r"What is the name of the company that pays for (.+)\?",
        [r"(.+) pays for S\."],
        [r'In this contract, "B" means (.+)\.', r'(.+) is called "B" in this contract\.'],
    ),
    (
        r"How many euros are paid per hour for (.+)\?",
        [r"S is paid at (.+)\.", r"(.+) applies to S\."],
        [r"B is (.+) per hour\.", r"B means (.+) per hour\."],
    ),
    (
        r"What is the full name of the organization that is responsible for the (.+)\?",
        [r"The (.+) is responsible for the S\.", r"The (.+) looks after the S\."],
        [r"B stands for (.+)\.", r"The abbreviation B means (.+)\."],
    ),
    (
        r"How much does a night in the (.+) cost\?",
        [r"The S belongs to (.+)\.", r"The S is in (.+)\."],
        [r"B costs (.+) per night\.", r"A night in B costs (.+)\."],
    ),
    (
        r"To how many degrees is the (.+) heated\?",
        [r"The S is heated to (.+)\.", r"(.+) applies to the S\."],
        [r"B is (\d+ degrees)\.", r"B means (\d+ degrees)\."],
    ),
    (
        r"On which day and in which month is (.+) due\?",
        [r"S is due by (.+)\.", r"(.+) applies to S\."],
        [r"B is (\d+ \w+)\.", r"B falls on (\d+ \w+)\."],
    ),
]
READERS = {"hops": HOPS, "defined": DEFINED}
FACT_TASKS = ("hops", "defined", "table")


def find(item, wordings, **names):
    """Return the passages' numbers and the open names of all sentences of these forms; names are S and B."""
    found = []
    for number, passage in enumerate(item.passages):
        for sentence in re.split(r"(?<=\.)\s", passage):
            for wording in wordings:
                for letter, name in names.items():
                    wording = re.sub(rf"\b{letter}\b", lambda match, name=name: name, wording)
                if match := re.fullmatch(wording, sentence, re.IGNORECASE):
                    found.append((number, match[1]))
    return found


def solve(item, readers):
    """Return the answer and the passages of both facts, each of which must be there once."""
    ((first, second, subject),) = [
        (first, second, match[1]) for asked, first, second in readers if (match := re.fullmatch(asked, item.question))
    ]
    ((bridge_place, bridge),) = find(item, first, S=re.escape(subject))
    ((answer_place, answer),) = find(item, second, B=re.escape(bridge))
    competing = [find(item, first, S=".+"), find(item, second, B=".+")]
    return answer, bridge_place, answer_place, competing


def cells(line):
    return [cell.strip() for cell in line.strip("|").split("|")]


@pytest.mark.parametrize("task", READERS)
@pytest.mark.parametrize("passages", [2, 8])
def test_the_answer_follows_from_two_facts_in_different_passages(task, passages, make):
    orders = Counter()
    for item in make(task, 100, passages):
        answer, bridge_place, answer_place, competing = solve(item, READERS[task])
        assert item.answers == (answer,)
        assert bridge_place != answer_place
        assert len(item.passages) == passages
        assert all(len({name for _, name in facts}) == 3 for facts in competing)
        orders[bridge_place < answer_place] += 1
    assert orders[True] == 0 if task == "defined" else min(orders[True], orders[False]) > 20


def test_all_wordings_and_templates_are_used(make):
    for task, readers in READERS.items():
        asked = Counter(
            next(number for number, reader in enumerate(readers) if re.fullmatch(reader[0], item.question))
            for item in make(task, 100)
        )
        assert len(asked) == len(readers) and min(asked.values()) > 3


@pytest.mark.parametrize("passages", [2, 3, 8])
def test_a_cell_is_found_by_row_and_by_the_header_in_an_earlier_passage(passages, make):
    places = set()
    for item in make("table", 100, passages):
        assert len(item.passages) == passages
        ((header_place, lines),) = [
            (number, passage.split("\n")) for number, passage in enumerate(item.passages) if "| --- |" in passage
        ]
        assert set(cells(lines[-1])) == {"---"}  # the passage ends with the header
        header = cells(lines[-2])
        rows = [
            (number, cells(line))
            for number, passage in enumerate(item.passages)
            for line in passage.split("\n")
            if line.startswith("| ") and number != header_place
        ]
        assert len(rows) == 6 and len({number for number, _ in rows}) == min(3, passages - 1)
        ((place, row),) = [(number, row) for number, row in rows if row[0] in item.question]
        (column,) = [number for number, name in enumerate(header) if name in item.question and number]
        assert item.answers == (row[column],)
        assert header_place < place
        assert len({cell for _, row in rows for cell in row[1:]}) == 12
        places.add(place)
    assert len(places) == passages - 1


@pytest.mark.parametrize("task", FACT_TASKS)
def test_the_answer_stands_in_one_passage_only(task, make):
    for item in make(task, 100):
        (answer,) = item.answers
        assert sum(bool(re.search(rf"(?<!\w){re.escape(answer)}(?!\w)", passage)) for passage in item.passages) == 1
        assert not re.search(rf"(?<!\w){re.escape(answer)}(?!\w)", item.question)


@pytest.mark.parametrize("task", FACT_TASKS)
def test_questions_differ_and_an_item_does_not_depend_on_how_many_are_made(task, make):
    items = make(task, 100)
    assert len({item.question for item in items}) == len({item.id for item in items}) == 100
    assert make(task, 7) == items[:7]
    assert not {item.question for item in make(task, 7, seed=1)} & {item.question for item in items[:7]}
    assert {(item.group, item.metric) for item in items} == {(f"ships {task}", "f1")}


@pytest.mark.parametrize("task", ["hops", "defined"])
def test_sentences_and_headings_of_the_paragraphs_stay_whole(task, make):
    for item in make(task, 10):
        for passage in item.passages:
            heading, *_ = passage.split("\n")
            assert re.fullmatch(r"Ship \w+", heading) and passage.count("\n") == 1
            assert "Dr. J. Brandt, the owner, praised him." in passage


def test_the_subject_and_the_bridge_of_a_question_differ():
    drawn = iter([("Keld", "Keld", "1900"), *((f"S{n}", f"B{n}", f"{n}") for n in range(3))])
    facts = TwoFacts(lambda rng: next(drawn), ("{subject} {bridge}.",), ("{bridge} {answer}.",), "Who is {subject}?")
    assert facts.sample(Random(0), second_comes_first=False).question == "Who is S0?"
