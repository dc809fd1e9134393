"""A section is quoted by its heading only if it is clear of which document, and never half a sentence."""

import time

import pytest

from engine.generation.section import PARTIAL_CONFIDENCE, find_section, find_titled_section
from engine.model.tokenizer import TokenizedText
from engine.prompt.pack import PreparedPrompt
from engine.prompt.question_kind import question_kind
from engine.prompt.units import split_units
from store.types import Chunk, Hit

LEASE = "# Lease\n\n## Termination\n\nThree months, in writing.\n\n## Rent\n\nIt is 940."
JOB = "# Contract\n\n## 4. Termination\n\nFour weeks.\n\n## Vacation\n\n28 days.\n\n## End\n\nNone."
BOTH = [("Employment contract.pdf", JOB), ("Lease.pdf", LEASE)]
LONG = "A very long name of a contract between two parties of 2024"


def chunks(name, *texts, first=0, overlap=0):
    start = 0
    for index, text in enumerate(texts, first):
        yield Hit(Chunk(f"{name}-{index}", name, name, index, None, start, start + len(text), text, name), 1, 1, True)
        start += len(text) + 2 - overlap


def section(question, *hits, find=find_section):
    texts = tuple(hit.chunk.passage for hit in hits)
    passages = tuple(TokenizedText((0,), ((0, 1),)) for _ in texts)
    prepared = PreparedPrompt(texts, passages, question, question, (0,), 8, hits)
    units = [
        unit
        for passage, text in enumerate(texts)
        for unit in split_units(passage, text)
        if unit.start >= len(hits[passage].chunk.context)
    ]
    found = find(prepared, question_kind(question), units)
    return [texts[unit.passage][unit.start : unit.end] for unit in found.units], found.confidence


def ask(question, documents=BOTH):
    return section(question, *(hit for name, text in documents for hit in chunks(name, text)))[0]


@pytest.mark.parametrize(
    "question",
    [
        "What does the lease say about termination?",
        "What does Lease.pdf say about Termination?",
        "What does LEASE say about the termination?",
        "Was steht im Lease über Termination?",
        "Was steht in Lease.pdf zur Termination?",
    ],
)
def test_the_section_is_from_the_named_document(question):
    assert ask(question) == ask(question, BOTH[::-1]) == ["Three months, in writing."]


@pytest.mark.parametrize(
    "question",
    [
        "What does Lease.pdf say about vacation?",  # which has no such section
        "What does the lease say about vacation?",
        "What does Lease.docx say about termination?",
        "What does Sublease.pdf say about termination?",
        "What does Old contract of last…  say about vacation?",
        "What does the document say about termination?",
        "What do they say about termination?",
        "What does it say about termination?",
        "What do the lease and the sublease say about termination?",
        "What do both say about vacation?",
        "What does the 2023 contract say about vacation?",
        "What do the 2023 and the 2024 handbook say about vacation?",
        "How do the documents differ in what they say about vacation?",
        "What does the lease say about termination, and when does it end?",
        "Summarize what the lease says about termination.",
        "Does the lease say about termination anything?",
        "What does the lease say about?",
    ],
)
def test_a_doubtful_document_or_several_or_another_kind_of_question_has_no_section(question):
    assert ask(question) == ask(question, BOTH[::-1]) == []


@pytest.mark.parametrize(
    "question",
    [
        "What do Lease.pdf and Employment contract.pdf say about termination?",
        "What do the lease and the employment contract say about termination?",
        "What do both the lease and the employment contract say about termination?",
        "What does Lease.pdf, Employment contract.pdf say about termination?",
        "Was steht in Lease.pdf und in Employment contract.pdf zur Termination?",
    ],
)
def test_of_several_named_documents_each_section_is_quoted(question):
    assert ask(question) == ask(question, BOTH[::-1]) == ["Four weeks.", "Three months, in writing."]


def test_several_named_documents_may_be_versions_but_none_may_be_missing_or_without_the_section():
    versions = [(f"Lease {year}.pdf", LEASE.replace("940", str(year))) for year in (2025, 2024)]
    assert ask("What do Lease 2024 and Lease 2025 say about rent?", versions) == ["It is 2024.", "It is 2025."]
    assert ask("What do the 2024 and the 2025 lease say about rent?", versions) == ["It is 2024.", "It is 2025."]
    assert ask("What do Lease 2024, Lease 2025 and Lease 2026 say about rent?", versions) == []
    assert ask("What do Lease 2024.pdf and Lease 2026.pdf say about rent?", versions) == []
    assert ask("What do the lease and the employment contract say about vacation?") == []


def test_without_a_named_document_the_only_one_with_the_section_is_quoted():
    for who in ("the documents", "it", "the agreement"):
        assert ask(f"What do {who} say about vacation?") == ["28 days."]
    assert ask("What does Sublease say about rent?", [("Lease.md", "## Rent\n\nOne.\n\n## End")]) == ["One."]


def test_the_longest_name_is_meant_and_a_name_may_hold_what_separates_names():
    versions = [("Lease.pdf", LEASE), ("Lease 2024.pdf", LEASE.replace("Three", "Two"))]
    assert ask("What does the 2024 lease say about termination?", versions) == ["Two months, in writing."]
    assert ask("What do Lease.pdf and Lease 2024.pdf say about termination?", versions) == []
    terms = [("Terms and conditions, all.pdf", LEASE), *BOTH]
    assert ask("What does Terms and conditions, all.pdf say about termination?", terms) == ["Three months, in writing."]
    assert ask("What do Terms and conditions, all.pdf and the rules say about termination?", terms) == []
    documents = [("document.pdf", LEASE), ("a.md", JOB)]
    assert ask("What does a document say about termination?", documents) == []
    assert ask("What does document.pdf say about termination?", documents) == ["Three months, in writing."]
    assert ask("What does a.md say about termination?", documents) == ["Four weeks."]


def test_a_name_cut_as_in_a_suggestion_is_that_of_its_document():
    documents = [(f"{LONG}.pdf", LEASE), *BOTH]
    assert ask(f"What does {LONG[:47]}… say about termination?", documents) == ["Three months, in writing."]
    assert ask(f"What does {LONG[:47]}… say about vacation?", documents) == []
    twice = [*documents, (f"{LONG}, new.pdf", JOB)]
    assert ask(f"What does {LONG[:47]}… say about termination?", twice) == []
    assert ask(f"What does {LONG[:-2]}… say about termination?", documents) == ["Three months, in writing."]
    assert ask("What does A v… say about termination?", documents) == []


@pytest.mark.parametrize(
    ("title", "topic", "expected"),
    [
        ("No hidden fees", "fees", False),
        ("Termination without notice", "notice", False),
        ("2.1 Fees", "fees", True),
        ("2.1 Fees", "2.1 Fees", True),
        ("About the company", "the company", True),
        ("The company", "Company", True),
        ("Our **fees**", "our fees", True),
        ("§ 4 Fees", "fees", True),
        ("3 months notice", "3 months notice", True),
        ("Fees", "fees of 2024", False),
    ],
)
def test_the_title_has_just_the_words_of_the_topic(title, topic, expected):
    text = f"# All\n\n## {title}\n\nFirst.\n\n## Other\n\nSecond."
    assert ask(f"What does a.md say about {topic}?", [("a.md", text)]) == ["First."] * expected
    assert ask("What does a.md say about notes?", [("a.md", f"## {title}\n\nFirst.\n\n## Notes\n\nSecond.")]) == [
        "Second."
    ]


def test_a_section_goes_on_below_deeper_headings():
    text = "## Fees\n\nThere are two.\n\n### Basic\n\nIt is 5.\n\n### Premium\n\nIt is 10.\n\n## End\n\nNo."
    found = section("What does a.md say about fees?", *chunks("a.md", text))
    assert found == (["There are two.", "Basic", "It is 5.", "Premium", "It is 10."], 1.0)
    long = text.replace("It is 5.", "It is 5. Per month. Net.")  # the seventh is a sub-heading's sentence
    texts, confidence = section("What does a.md say about fees?", *chunks("a.md", long))
    assert texts == ["There are two.", "Basic", "It is 5.", "Per month.", "Net."] and confidence == PARTIAL_CONFIDENCE


def test_a_section_goes_on_in_the_next_passage_if_that_was_found():
    one, two, three = chunks("a.md", "## Fees\n\nOne.", "Two.\n\n## End", "## Other\n\nThree.")
    other = next(chunks("b.md", "Four."))
    question = "What does a.md say about fees?"
    assert section(question, three, two, other, one) == (["One.", "Two."], 1.0)
    assert section(question, three, one, other) == (["One."], PARTIAL_CONFIDENCE)
    before, after = chunks("a.md", "## Fees\n\nOne.", "## End\n\nTwo.")
    assert section(question, after, before) == (["One."], 1.0)
    title, text = chunks("a.md", "Intro.\n\n## Fees", "One.\n\n## End")
    assert section(question, title, text) == (["One."], 1.0)
    assert section(question, title)[0] == []


def test_what_the_next_passage_repeats_is_quoted_once():
    question = "What does a.md say about fees?"
    repeated = len("\n\nTwo.") + 2 - len("\n\n")
    one, two = chunks("a.md", "## Fees\n\nOne. Two.", "Two. Three.\n\n## End", overlap=repeated)
    assert section(question, one, two) == (["One.", "Two.", "Three."], 1.0)
    heading = "## Fees\n\nOne."
    one, two = chunks("a.md", f"Intro.\n\n{heading}", f"{heading} Two.\n\n## End", overlap=len(heading) + 2)
    assert section(question, one, two) == section(question, two, one) == (["One.", "Two."], 1.0)


def test_a_section_never_ends_inside_a_sentence_or_with_a_heading():
    question = "What does a.md say about fees?"
    assert section(question, *chunks("a.md", "## Fees\n\nOne. The tenant must"))[0] == ["One."]
    assert section(question, *chunks("a.md", "## Fees\n\nThe tenant must"))[0] == []
    assert section(question, *chunks("a.md", "## Fees\n\nOne.\n\n### Two\n\nAlso:"))[0] == ["One."]
    assert section(question, *chunks("a.md", "## Fees\n\n- one\n- two"))[0] == ["one", "two"]
    lines = "\n".join(["One.", "Two.", "Three.", "Four.", "Five is a line", "that goes", "on."])
    assert section(question, *chunks("a.md", f"## Fees\n\n{lines}\n\n## End"))[0] == lines.split("\n")[:4]
    apart = "\n\n".join("abcdefgh")
    assert section(question, *chunks("a.md", f"## Fees\n\n{apart}\n\n## End"))[0] == list("abcdef")


def test_the_caption_of_a_table_is_followed_by_its_rows_only():
    rows = "| Year: 2025 | Rent: 940 |\n| Year: 2026 | Rent: 960 |"
    text = f"## Rent\n\nTable 3: Rent by year\n\n{rows}\n\nIt is due monthly."
    assert section("What does a.md say about Rent by year?", *chunks("a.md", text)) == (rows.split("\n"), 1.0)


def test_the_first_of_equal_headings_of_a_document_is_less_certain():
    text = "# A\n\n## Fees\n\nOne.\n\n# B\n\n## Fees\n\nTwo.\n\n## End"
    assert section("What does a.md say about fees?", *chunks("a.md", text)) == (["One."], PARTIAL_CONFIDENCE)


PRACTICE = """# Vets

## Opening hours

### Office

Open from 8 to 6.

### Surgery for cats

- Monday: 9 to 11
- Friday: 4 to 7

## Prices

| Item: Chip | Price: 22 |

## Out of hours

Call Moorgate."""


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Opening hours office", ["Open from 8 to 6."]),
        ("Opening hours of the surgery?", ["Monday: 9 to 11", "Friday: 4 to 7"]),
        ("vets prices", ["| Item: Chip | Price: 22 |"]),
        ("Out of hours", ["Call Moorgate."]),
        ("prices", ["| Item: Chip | Price: 22 |"]),
        ("cats", []),  # the heading says more
        ("Opening hours pharmacy", []),
        ("Which prices?", []),
        ("When are the opening hours of the office", []),
    ],
)
def test_a_phrase_names_a_section_by_its_heading_and_those_above_it(question, expected):
    assert section(question, *chunks("Vets.md", PRACTICE), find=find_titled_section)[0] == expected


def test_a_phrase_is_about_one_document_or_its_newest_edition():
    def ask(*names):
        hits = (hit for name in names for hit in chunks(name, f"# Rules\n\n## Rent\n\nAs in {name}."))
        return section("rent", *hits, find=find_titled_section)[0]

    assert ask("rules_2023.md", "rules_2025.md") == ask("rules_2025.md", "rules_2023.md") == ["As in rules_2025.md."]
    assert ask("lease.md", "rules.md") == []


def test_hostile_questions_and_headings_take_little_time():
    headings = "\n\n".join(["# " + "1. " * 500 + "1." * 2000, "# Fees"] * 50)
    started = time.process_time()
    for question in (
        "steht in " * 5000,
        "a\u2026" * 5000 + " say about fees",
        "x, " * 5000 + "say about " + "the " * 5000,
    ):
        assert ask(question, [("a.md", headings)]) == []
    assert time.process_time() - started < 5
