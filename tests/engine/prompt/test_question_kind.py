"""The kinds of answers that questions need, and questions that contain several."""

import pytest

from engine.prompt.question_kind import QuestionKind, question_kind, split_parts
from engine.prompt.small_talk import reply
from engine.prompt.text_finder import TextFinder

QUESTIONS = {
    QuestionKind.FACT: (
        "Thanks, and who is the chair?",
        "Thanks. Tell me the fee",
        "Thanks, now tell me the fee",
        "Who owns the company?",
        "And since when?",
        "How often does the filter have to be changed?",
        "How much does the deposit cost?",
        "hello, what is the rent?",
        "How can I reach the janitor?",
        "Is the fuse 10 A or 20 A?",
        "Wie schwer ist das Ger\u00e4t?",
        "What is the notice period?",
        "Was kostet der Saal?",
        "Between which hours are trucks allowed?",
        "Which bike charges fastest?",
        "Which bus does the tour use?",
        "Was hat die Pflege im Jahr 2024 gekostet?",
    ),
    QuestionKind.YES_NO: (
        "Are dogs allowed?",
        "Was the roof finished?",
        "please, may I smoke here?",
        "Darf ich rauchen?",
        "Under the policy, may I?",
        "I rent the hall. Is the kitchen included?",
        "Brauche ich einen Termin?",
        "Gilt das Ticket auch im Bus?",
    ),
    QuestionKind.LIST: (
        "Where does the money come from? All of them please.",
        "List the five risks.",
        "Which risks does the board see?",
        "What is in the box?",
        "When will they not pay? All the exclusions please",
        "Was ist alles nicht versichert?",
        "Which invoices over 500 euros are unpaid?",
        "Which employees started before 2020?",
        "Which tickets aren't closed yet?",
        "Show all open tickets",
        "Give me the invoices from Brandt that are late",
        "Welche Tickets mit hoher Priorit\u00e4t sind offen?",
        "Zeig mir alle offenen Tickets",
        "What are the main risks?",
        "top risks of the project?",
        "Who are the owners?",
        "Which warning signs mean danger?",
        "Which of the clubs don't cost anything?",
        "What kinds of cake do you bake?",
        "Wer sitzt jetzt im Beirat?",
        "Welche Pflichten haben die Mitglieder?",
        "Wer geh\u00f6rt alles zum Vorstand?",
    ),
    QuestionKind.STEPS: (
        "How do I reset it?",
        "How did you hand in a claim in 2023?",
        "What are the steps to descale it?",
        "Wie entkalke ich das Ger\u00e4t?",
        "Walk me through it.",
        "Was muss ich nach einem Unfall tun?",
        "Wie l\u00e4uft der Auszug ab?",
    ),
    QuestionKind.SUMMARY: (
        "Summarize the letter.",
        "Give me the gist of it",
        "Worum geht es in dem Protokoll?",
        "Sum up the letter",
        "What are my documents about?",
        "What's this about?",
        "Give me a quick rundown of the meeting",
    ),
    QuestionKind.COMPARISON: (
        "How did the limit change between 2022 and 2024?",
        "Compare the two models.",
        "What may I spend in the 2023 policy and in the 2025 one?",
        "Which is louder, the A10 or the B20?",
        "Is the newer limit the same as in the old policy?",
        "Was ist der Unterschied zwischen A und B?",
    ),
    QuestionKind.SMALL_TALK: (
        "Hello!",
        "hi there",
        "Thanks a lot!",
        "Thanks, that's exactly what I wanted to know.",
        "cheers, that was a great help!",
        "Danke, das hat mir geholfen! Was kannst du sonst noch?",
        "What can you do?",
        "hi there! what sort of things can I ask you?",
        "Danke sch\u00f6n",
        "alright thanks mate, that's me sorted",
        "",
        "?!",
    ),
}


@pytest.mark.parametrize(("kind", "question"), [(kind, each) for kind, all_ in QUESTIONS.items() for each in all_])
def test_the_words_of_a_question_tell_its_kind(kind, question):
    assert question_kind(question) is kind


@pytest.mark.parametrize(
    ("question", "parts"),
    [
        ("Who built it?", ["Who built it?"]),
        ("Who built the pier, and when was the pier opened?", ["Who built the pier?", "when was the pier opened?"]),
        ("What is the deposit and when is it due?", ["What is the deposit?", "What is the deposit? when is it due?"]),
        ("When is the meeting and where?", ["When is the meeting?", "where is the meeting?"]),
        (
            "Who sings, who plays and since when?",
            ["Who sings?", "Who sings? who plays?", "Who sings? who plays? since when?"],
        ),
        ("When and where is the meeting?", ["When is the meeting?", "When is the meeting? where is the meeting?"]),
        ("Tell me, who sings?", ["Tell me, who sings?"]),
        ("Leaving rent aside, what was paid?", ["Leaving rent aside, what was paid?"]),
        ("Phone number and what does it cost?", ["Phone number?", "Phone number? what does it cost?"]),
        (
            "The shop gave money back - how much and why?",
            ["The shop gave money back - how much?", "The shop gave money back - how much? why?"],
        ),
        ("Salt and pepper, where are they?", ["Salt and pepper, where are they?"]),
    ],
)
def test_several_questions_in_one_are_separated(question, parts):
    assert split_parts(question) == parts


def test_a_greeting_is_answered_with_questions_about_the_documents():
    finder = TextFinder(["one"])
    assert "Summarize Text 1." in reply("Hello!", finder)
    assert "Fasse Text 1 zusammen." in reply("Hallo!", finder)
    assert "Add documents" in reply("Hello!", TextFinder())
