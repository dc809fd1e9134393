"""Yes or no, from the words of the sentence that answers."""

import pytest

from engine.generation.verdict import verdict


@pytest.mark.parametrize(
    ("question", "answer", "expected"),
    [
        ("May I smoke?", "Smoking is allowed.", "Yes"),
        ("May I smoke?", "Smoking isn't allowed.", "No"),
        ("Is smoking prohibited?", "It is prohibited.", "Yes"),
        ("Is it fast?", "It takes no more than two hours.", "Yes"),
        ("Darf ich rauchen?", "Rauchen ist verboten.", "Nein"),
        ("Darf ich rauchen?", "Rauchen ist erlaubt.", "Ja"),
        ("Und darf ich rauchen?", "Rauchen ist erlaubt.", "Ja"),
        ("Laut Vertrag, darf ich rauchen?", "Rauchen ist verboten.", "Nein"),
        ("Is the den open to us?", "It is open to all.", "Yes"),
        ("Is smoking on the balcony ok?", "Do not smoke in the hall; smoking on the balcony is permitted.", "Yes"),
        ("May dogs come?", "Cats may not come, but dogs may come on a lead.", "Yes"),
        (
            "Darf ich im Einer aufs Wasser?",
            "Auf dem Wasser gilt Westenpflicht; Fahrten im Einer sind verboten.",
            "Nein",
        ),
        ("Hat das Sekretariat am Donnerstag offen?", "Donnerstag: geschlossen", "Nein"),
        ("Is it closed on Monday?", "Monday: closed", "Yes"),
        ("Is the deposit refundable?", "The deposit is non-refundable.", "No"),
        ("Are dogs allowed?", "Dogs require the Landlord's written consent.", ""),
        ("I am new, can I work from home?", "You may work from home once you have been here for a month.", ""),
        ("Is breakfast free?", "Breakfast is provided free of charge.", "Yes"),
        (
            "Can orders be cancelled after the parcel has shipped?",
            "Orders cannot be cancelled once the parcel has shipped.",
            "No",
        ),
        ("Can I work from home once I am trained?", "You may work from home once you are trained.", "Yes"),
        ("Do dogs require consent?", "Dogs require the Landlord's written consent.", "Yes"),
        ("May my dog come to Quill?", "Dogs may come to Saxby and Ellery; Quill has no room for this.", ""),
        ("Kostet das Parken extra?", "Das Parken kostet nichts.", "Nein"),
        ("May I use the water for my plants?", "Do not drink the water. Plants like it.", "Yes"),
    ],
)
def test_negation_decides_between_yes_and_no(question, answer, expected):
    assert verdict(question, [answer]) == expected


@pytest.mark.parametrize(
    ("question", "answer", "expected"),
    [
        ("May my 9 year old use it?", "Children from the age of 8 may use it. Children must not clean it.", "Yes"),
        ("May my 7 year old use it?", "Children from the age of 8 may use it.", "No"),
        ("Is a pond of 3.5 m allowed?", "Ponds of up to 3 m are allowed.", "No"),
        ("Ist ein Becken mit 2,50 m erlaubt?", "Becken sind bis 3,00 m erlaubt.", "Ja"),
        ("Are savings expected in 2026?", "Savings of 5 million a year are expected from 2027.", "No"),
        ("Are 10 guests allowed?", "Up to 8 guests and 2 dogs are allowed.", "No"),
        ("Is 1 dog allowed?", "Up to 2 dogs and 8 guests are allowed.", "Yes"),
        ("Is it open in 2028?", "It is open from 2027.", "Yes"),
        ("Can I give it to a 5 year old?", "Children under 6 years must not be given it.", "No"),
        ("Can I give it to a 7 year old?", "Children under 6 years must not be given it.", ""),
        ("May a 17 year old use it?", "Under 16 no one may use it; from 16 to 18 only with a master.", ""),
        ("Do I need a permit for 1 hour?", "Up to 2 hours no permit is needed; from 2 to 4 hours a permit is.", "No"),
        ("May a 17 year old drink gin?", "Under 16 beer is not allowed; from 16 to 18 beer is but no gin.", "No"),
        ("May a 12 year old swim?", "Under 8 no one may swim; from 8 to 14 children may.", "Yes"),
        ("Can I withdraw 400?", "You can withdraw up to 500 at no charge.", "Yes"),
        ("Is it free for a child of 3?", "Children under 4 do not pay.", "Yes"),
        ("May I stay for 10 days?", "Guests may stay for up to 14 days at no cost.", "Yes"),
        ("May a child in Year 4 cycle to school?", "Only children in Year 5 and above may cycle to school.", "No"),
    ],
)
def test_a_number_or_year_outside_the_limit_means_no(question, answer, expected):
    assert verdict(question, [answer]) == expected


@pytest.mark.parametrize(
    ("question", "expected"), [("May I use a charcoal grill?", "No"), ("May I use an electric grill?", "Yes")]
)
def test_only_excludes_what_the_question_does_not_name(question, expected):
    assert verdict(question, ["Grilling is allowed only with an electric grill."]) == expected


@pytest.mark.parametrize(
    ("question", "answer", "expected"),
    [
        ("Do I have to bolt down the W11?", "W16 must be bolted down; W7 and W11 may stand on their feet.", ""),
        ("May the A10 stand freely?", "The A10 must be bolted to the floor; the B20 may stand freely.", ""),
        ("Is the A10 waterproof?", "The B20 is waterproof; the A10 is not waterproof.", "No"),
        ("Is the A10 allowed on the balcony?", "The A10 is allowed indoors; on the balcony it is forbidden.", ""),
        ("Is the 3-day ticket transferable?", "The 3-day ticket costs 20 euros; tickets are not transferable.", ""),
    ],
)
def test_a_clause_about_another_model_does_not_decide(question, answer, expected):
    assert verdict(question, [answer]) == expected
