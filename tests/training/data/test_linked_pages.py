"""Invented pages that refer to one another: answers follow from what the pages say."""

import json
import re
from collections import Counter

from training.data.corpus import read_corpora
from training.data.linked_pages import COMPARISONS, LINKED_COMPARISONS, Collection, _number, write_linked_pages

ROLES = {
    "creator": "author",
    "star": "star",
    "founder": "founder",
    "architect": "architect",
    "mayor": "mayor",
    "head coach": "coach",
}
COLLECTIONS = [Collection(f"test {number}") for number in range(60)]


def _matches(wording, question):
    pattern = re.escape(wording)
    for name in ("a", "b", "kind", "role"):
        pattern = pattern.replace(rf"\{{{name}\}}", f"(?P<{name}>.+)")
    return re.fullmatch(pattern, question)


def test_a_collection_depends_on_its_seed_alone():
    first, again, other = Collection("a"), Collection("a"), Collection("b")
    assert (first.passages(), first.questions()) == (again.passages(), again.questions())
    assert first.passages() != other.passages()


def test_two_hop_questions_name_a_page_that_refers_to_the_page_with_the_answer():
    num_hops = 0
    for collection in COLLECTIONS:
        pages = dict(zip(collection.pages, collection.passages(), strict=True))
        for question, answer in collection._hops():
            (subject,) = [name for name in sorted(pages, key=len)[::-1] if name in question][:1]
            targets = [name for name in pages if name != subject and name in pages[subject]]
            if answer:
                num_hops += 1
                assert any(answer in pages[target] for target in targets)
    assert num_hops > 300


def test_comparisons_name_the_page_with_the_smaller_or_the_larger_value():
    asked = set()
    for collection in COLLECTIONS:
        texts = dict(zip(collection.pages, collection.passages(), strict=True))
        for question, answer in collection._comparisons():
            (name, is_larger) = next(
                (name, bool(index))
                for name, both in COMPARISONS.items()
                for index, wordings in enumerate(both)
                for wording in wordings
                if _matches(wording, question)
            )
            values = {
                page: _number(collection.pages[page].values[name])
                for page in collection.pages
                if re.search(rf"\b{page}( or |\?|,)|, {page}\b", question)
            }
            assert answer == (max if is_larger else min)(values, key=values.get)
            assert collection.pages[answer].values[name] in texts[answer]
            asked.add(name)
    assert asked == set(COMPARISONS)


def test_comparisons_over_two_hops_name_the_page_whose_person_has_the_smaller_or_the_larger_value():
    roles = set()
    for collection in COLLECTIONS:
        for question, answer in collection._linked_comparisons():
            (found,) = [
                (name, bool(index), match["role"], (match["a"], match["b"]))
                for name, both in LINKED_COMPARISONS.items()
                for index, wordings in enumerate(both)
                for wording in wordings
                if (match := _matches(wording, question))
            ]
            name, is_larger, role, pages = found
            people = {page: collection.pages[page].values[ROLES[role]] for page in pages}
            values = {page: _number(collection.pages[person].values[name]) for page, person in people.items()}
            assert answer == (max if is_larger else min)(values, key=values.get)
            roles.add(role)
    assert roles == set(ROLES)


def test_as_many_yes_as_no():
    answers = Counter(
        answer for collection in COLLECTIONS for _, answer in [*collection._shared(), *collection._linked_shared()]
    )
    assert answers.keys() == {"Yes", "No"} and 0.6 < answers["Yes"] / answers["No"] < 1.7


def test_rows_are_read_as_passages_that_belong_together(tmp_path):
    file = tmp_path / "pages.jsonl"
    counts = write_linked_pages(12, 5, file)
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    (corpus,) = read_corpora(file)
    assert [list(paragraph.passages) for paragraph in corpus.paragraphs] == [row["passages"] for row in rows]
    assert sum(len(row["passages"]) for row in rows) == counts["passages"]
    unanswerable = sum(len(paragraph.unanswerable) for paragraph in corpus.paragraphs)
    assert (corpus.num_questions + unanswerable, unanswerable) == (counts["questions"], counts["unanswerable"])
    assert unanswerable > 0


def test_marriage_is_mutual():
    couples = 0
    for collection in COLLECTIONS:
        for page in collection.pages.values():
            partner = collection.pages.get(page.values.get("spouse", ""))
            if partner is not None:
                couples += 1
                assert partner.values["spouse"] == page.name
    assert couples > 10
