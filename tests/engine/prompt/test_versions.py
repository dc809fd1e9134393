"""General comparisons of two documents list what differs, and nothing else."""

import random
from dataclasses import replace

import pytest

from engine.prompt.pack import PreparedPrompt
from engine.prompt.versions import DocumentChanges, LocatedUnit, changes_between, compare_documents
from engine.request import ChatTurn, Request
from store.types import COLLECTION, Chunk, Document, Hit

OLD = """# Rules 2024

The pool opens at nine. Children swim with an adult. Dogs wait outside.

| Fee: Adult | Euro: 4 |
| Fee: Child | Euro: 2 |

Lockers take a coin."""
NEW = """# Rules 2025

The pool opens at eight. Children swim with an adult. Dogs wait outside.

| Fee: Adult | Euro: 5 |
| Fee: Child | Euro: 2 |

Towels are rented outside."""


class Library:
    """A finder of documents, whose chunks have so many characters and overlap by 30."""

    def __init__(self, texts, size=60):
        self.texts, self.size = texts, size

    def documents(self):
        return [Document(name, name, 1, None, 1, float(i), collections=("all",)) for i, name in enumerate(self.texts)]

    def chunks(self, document):
        text, starts = self.texts[document], range(0, len(self.texts[document]), self.size - 30)
        return [
            Chunk(
                f"{document}-{i}",
                document,
                document,
                i,
                None,
                start,
                end := min(len(text), start + self.size),
                text[start:end],
            )
            for i, start in enumerate(starts)
        ]


def texts_of(changes):
    return [tuple(unit.text for unit in change) for change in changes]


DIFFERENCES = [
    ("The pool opens at nine.", "The pool opens at eight."),
    ("| Fee: Adult | Euro: 4 |", "| Fee: Adult | Euro: 5 |"),
    ("Lockers take a coin.",),
    ("Towels are rented outside.",),
]


@pytest.mark.parametrize("size", [40, 60, 1000])
@pytest.mark.parametrize("names", [("rules-2024.md", "rules-2025.md"), ("rules-2025.md", "rules-2024.md")])
def test_the_changes_from_the_older_to_the_newer_document_and_the_chunks_that_have_them(names, size):
    texts = {"rules-2024.md": OLD, "rules-2025.md": NEW}
    found = compare_documents(Library({name: texts[name] for name in names}, size), Request("What changed?"))
    assert (found.old.name, found.new.name) == ("rules-2024.md", "rules-2025.md")
    assert texts_of(found.changes) == DIFFERENCES
    assert all(unit.text in unit.chunk.text for change in found.changes for unit in change)
    assert {hit.chunk.id for hit in found.hits()} == {unit.chunk.id for change in found.changes for unit in change}


@pytest.mark.parametrize(
    "question, documents, is_general",
    [
        ("Compare rules-2024.md and rules-2025.md.", (), True),
        ("What is the difference between the rules of 2024 and 2025?", (), True),
        ("Was hat sich in den Rules von 2024 auf 2025 geändert?", (), True),
        ("What changed?", ("rules-2024.md", "rules-2025.md"), True),
        ("What changed?", (f"{COLLECTION}all",), False),  # three documents
        ("What changed?", ("rules-2024.md",), False),
        ("What changed about the fees?", ("rules-2024.md", "rules-2025.md"), False),
        ("How much is a locker in 2024 and 2025?", ("rules-2024.md", "rules-2025.md"), False),
        ("When does the pool open?", ("rules-2024.md", "rules-2025.md"), False),
        ("Has the date changed?", ("rules-2024.md", "rules-2025.md"), False),
        ("When was the document changed?", ("rules-2024.md", "rules-2025.md"), False),
        ("What changed in the newsletter?", ("rules-2024.md", "rules-2025.md"), False),
        ("Was hat sich beim Neubau geändert?", ("rules-2024.md", "rules-2025.md"), False),
        ("Compare rules-2024.md and rules-2025.md.", ("birds.md",), False),
    ],
)
def test_only_questions_about_all_of_two_documents_are_general(question, documents, is_general):
    library = Library({"rules-2024.md": OLD, "rules-2025.md": NEW, "birds.md": "Herons fish."})
    assert (compare_documents(library, Request(question, documents=documents)) is not None) is is_general


def test_only_chosen_documents_are_compared_whatever_the_question_names():
    library = Library({"rules-2024.md": OLD, "rules-2025.md": NEW, "birds.md": "Herons fish."})
    scope = ("birds.md", "rules-2024.md")
    found = compare_documents(library, Request("Compare rules-2024.md and rules-2025.md.", documents=scope))
    assert {found.old.id, found.new.id} == set(scope) and found.hits() == []


def test_names_with_underscores_words_of_summaries_and_of_other_names_are_recognized():
    summaries = Library({"Summary_2025.pdf": NEW, "Summary_2024.pdf": OLD, "Summary.pdf": "Herons fish."})
    found = compare_documents(summaries, Request("Compare Summary_2024.pdf and Summary_2025.pdf."))
    assert (found.old.name, found.new.name) == ("Summary_2024.pdf", "Summary_2025.pdf")


def test_a_follow_up_is_about_the_subject_of_the_question_before():
    library, asked = Library({"a.md": OLD, "b.md": NEW}), ChatTurn("How long is the pool open in a?", "Ten hours.", ())
    request = Request("And what changed?", history=(asked,))
    assert compare_documents(library, request) is None
    assert compare_documents(library, replace(request, question="Compare a.md and b.md.")) is not None


def test_rows_are_paired_by_their_names():
    old = passages(["| Plan: Basic | Euro: 10 | Space: 5 GB |", "one is here"])
    new = passages(
        ["| Plan: Basic | Euro: 12 | Space: 8 GB |", "| Plan: Free | Euro: 10 | Space: 5 GB |", "one is here"]
    )
    assert texts_of(changes_between(old, new)) == [(old[0].text, new[0].text), (new[1].text,)]
    assert changes_between(new[:2] + old[1:], [new[1], new[0], old[1]]) == []  # rows that have only moved


def test_a_unit_is_quoted_where_it_is_and_not_in_the_context_or_an_earlier_sentence():
    chunk = Chunk("c-0", "c", "fees.md", 0, None, 0, 26, "The late fee is 5 euros.\n5", context="fees 5")
    hit = Hit(chunk, 1.0, similarity=None, matched_words=False)
    prepared = PreparedPrompt((chunk.passage.strip(),), (), "", "", (), 1, hits=(hit,))
    document = Library({"a": ""}).documents()[0]
    for text, start in (("The late fee is 5 euros.", 0), ("5", 25)):
        found = DocumentChanges(document, document, [(LocatedUnit(text, chunk, start),)])
        ((quote,),) = found.add_to(prepared).changes
        assert quote.start == start + len("fees 5\n\n") and prepared.texts[0][quote.start : quote.end] == text


def test_a_whole_document_is_read_without_a_comparison():
    library = Library({"a.md": OLD, "b.md": NEW})
    assert compare_documents(library, replace(Request("What changed?"), whole_document=True)) is None


def passages(texts):
    return [LocatedUnit(text, None) for text in texts]


def test_equal_and_moved_units_are_no_changes_and_unrelated_documents_have_no_list():
    old = passages(["one is here", "two is there", "three is away"])
    assert changes_between(old, old) == []
    assert changes_between(old, [old[2], old[0], old[1]]) == []
    assert changes_between(old, passages(["herons fish at dawn", "granite cools slowly", "sails are white"])) is None


def test_every_unit_is_shared_or_listed_once():
    """Against the definition: what only one document has is listed, in the order of that document."""
    rng = random.Random(7)
    for _ in range(200):
        old = [f"{rng.choice('abcdef')} {rng.choice('uvwxyz')} stays" for _ in range(rng.randrange(1, 12))]
        new = [text if rng.random() < 0.7 else text.replace("stays", "goes away") for text in old if rng.random() < 0.9]
        changes = changes_between(passages(old), passages(new))
        if changes is None:
            continue
        units = texts_of(changes)
        listed_old = [each[0] for each in units if each[0] in old and (len(each) == 2 or each[0] not in new)]
        assert set(old) - set(new) <= set(listed_old) and set(new) - set(old) <= {each[-1] for each in units}
        assert all(len(each) == 2 or (each[0] in old) != (each[0] in new) for each in units)


def test_notes_say_what_is_missing():
    library = Library({"a.md": OLD, "b.md": NEW})
    found = compare_documents(library, Request("What changed?"))
    assert found._notes(4) == () and "2 of 4 differences" in found._notes(2)[0]
    same = compare_documents(Library({"a.md": OLD, "b.md": OLD}), Request("What changed?"))
    assert same.hits() == [] and "No sentence, list item or table row is in only one" in same._notes(0)[0]
    unrelated = Library({"a.md": OLD, "b.md": "Herons fish. " * 9})
    assert compare_documents(unrelated, Request("What changed?")) is None
    other = compare_documents(unrelated, Request("What changed?", documents=("a.md", "b.md")))
    assert other.hits() == [] and "too little text in common" in other._notes(0)[0]
