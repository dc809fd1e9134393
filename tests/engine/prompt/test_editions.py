"""Which of several editions of a document a question means."""

import pytest

from engine.prompt.editions import (
    edition_of,
    editions_in,
    is_former,
    newer_edition,
    other_editions,
    tells_edition,
    without_editions,
)

NAMES = ["policy_2023.docx", "lease.pdf", "policy_2025.docx", "report 2024.pdf", "policy_2023.docx"]


@pytest.mark.parametrize(
    ("question", "excluded", "older"),
    [
        ("What may I spend under the 2025 policy?", {0, 4}, set()),
        ("What could I spend in 2023?", {2}, set()),
        ("What may I spend now?", {0, 4}, set()),
        ("What could I spend under the old rules?", {2}, set()),
        ("What could I spend under the previous (2023) policy?", {2}, set()),
        ("Was durfte ich fr\u00fcher ausgeben?", {2}, set()),
        ("What may I spend?", set(), {0, 4}),
        ("What may I spend on old furniture?", set(), {0, 4}),
        ("What happened in 2019?", set(), set()),
        ("How did it change from 2023 to 2025?", set(), set()),
        ("What has it cost since 2023?", set(), {2}),
        ("Is it now more than under the old rules?", set(), {0, 4}),
    ],
)
def test_other_editions_are_excluded_if_the_question_tells_and_else_only_less_likely(question, excluded, older):
    found = other_editions(question, NAMES)
    assert (found.excluded, found.older) == (excluded, older)


def test_one_edition_is_never_excluded():
    assert not other_editions("What may I spend in 2019?", ["policy_2023.docx", "rules_2025.docx"]).excluded
    assert not other_editions("What may I spend now?", []).excluded


@pytest.mark.parametrize(
    ("question", "excluded"),
    [
        ("What is the limit in version 2.1?", {1, 2}),
        ("What is the limit in v3?", {0, 2}),
        ("What was it in the previous version?", {2}),
        ("What changed between version 2.1 and version 3.0?", set()),
    ],
)
def test_names_without_a_year_have_a_version(question, excluded):
    names = ["policy v2.1.pdf", "policy_v3.0.docx", "policy_v10.docx"]
    assert other_editions(question, names).excluded == excluded


@pytest.mark.parametrize(
    "question",
    [
        "Does it need TLS version 2?",
        "Which Windows version 11 is allowed?",
        "the latest version 2 days before",
        "12 V 2 A",
    ],
)
def test_other_versions_are_no_editions(question):
    names = ["policy v2.pdf", "policy v3.pdf"]
    assert 1 not in (found := other_editions(question, names)).older and 1 not in found.excluded


def test_years_and_versions_are_not_compared():
    found = other_editions("What is the current limit?", ["policy 2019.pdf", "policy v3.pdf"])
    assert not found.excluded and not found.older


@pytest.mark.parametrize(
    ("question", "named", "rest"),
    [
        ("What changed between version 2.1 and version 3.0?", {(2, 1), (3,)}, "What changed between ?"),
        ("versions 2 and 3 of the policy", {(2,), (3,)}, " of the policy"),
        ("What changed from v2.1 to v3?", {(2, 1), (3,)}, "What changed from ?"),
        ("Which version has 3 pages since 2023?", {(2023,)}, "Which version has 3 pages since ?"),
    ],
)
def test_a_question_names_years_and_versions(question, named, rest):
    assert (editions_in(question), without_editions(question)) == (named, rest)


def test_a_comparison_means_several_editions():
    assert tells_edition("What is the limit in 2025?") and not tells_edition("What changed since 2023?")
    assert tells_edition("Can apprentices work from home now (2025)?")  # 'from' begins no period
    assert not tells_edition("What did it cost from the end of 2023?")


def test_a_heading_tells_what_is_no_longer_in_force_unless_the_question_asks_for_it():
    assert is_former("Old tariff", "What is the fee?") and is_former("Bisherige Preise", "Was kostet es?")
    assert not is_former("Tariff", "What is the fee?") and not is_former("Gold tariff", "What is the fee?")
    for question in ("What was the old fee?", "What was the fee in 2023?", "Compare the fees."):
        assert not is_former("Old tariff", question)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Travel policy 2023 v3.1.docx", ("travel policy", (2023,))),
        ("Travel_Policy_2025_FINAL.docx", ("travel policy", (2025,))),
        ("lease.pdf", ("lease", ())),
        ("2025.pdf", ("", (2025,))),
        ("works meeting 2025-03-11.md", ("works meeting 03 11", (2025,))),
        ("Hausordnung 2022 Stand 3.pdf", ("hausordnung", (2022,))),
        ("Volvo V60 manual 2019.pdf", ("volvo v60 manual", (2019,))),
        ("Volvo V60.pdf", ("volvo", ())),  # a product
        ("Messe Stand 12.pdf", ("messe", ())),
        ("Preisliste Stand 03-2024.pdf", ("preisliste", (2024,))),
        ("Travel policy 2025 v02.docx", ("travel policy", (2025,))),
        ("security_policy_v2.1.pdf", ("security policy version", (2, 1))),
        ("Security policy (version 3.0).docx", ("security policy version", (3,))),
        ("Handbook v3 (2).docx", ("handbook version", (3,))),
    ],
)
def test_the_names_of_editions_share_all_but_years_and_versions(name, expected):
    assert edition_of(name) == expected


CLUB = ["Club_rules_2024.docx", "Club_rules_2026.docx", "notes.md"]


@pytest.mark.parametrize(
    ("question", "cited", "newer"),
    [
        ("Are dogs allowed?", {0}, "Club_rules_2026.docx"),
        ("Are dogs allowed?", {1}, ""),
        ("Are dogs allowed?", {0, 1}, ""),
        ("Are dogs allowed?", {2}, ""),
        ("Are dogs allowed?", set(), ""),
        ("Were dogs allowed in 2024?", {0}, ""),  # that edition is meant
    ],
)
def test_an_answer_from_an_older_edition_only_has_a_newer_one(question, cited, newer):
    assert newer_edition(question, CLUB, cited) == newer
