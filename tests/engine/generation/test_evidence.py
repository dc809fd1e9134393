"""Quotes from the passages: which ones answer a question, and how certain an answer is."""

import re
from dataclasses import replace

import pytest

from engine.generation.bridge import find_bridges
from engine.generation.confidence import Confidence
from engine.generation.quotes import format_quotes, format_unit, whole_words
from engine.generation.ranking import UnitRanker
from engine.generation.stream import fill_quoted_answer
from engine.model.tokenizer import TokenizedText
from engine.prompt.pack import PreparedPrompt
from engine.prompt.question_kind import QuestionKind, split_parts
from engine.prompt.units import split_units
from engine.request import MIN_TRUSTED_CONFIDENCE, Answer, Quote, Request
from engine.trace import Trace
from store.types import Chunk, Hit
from tests.support.evidence import MANUAL, OTHER, Encoder, Scorer, evidence, texts_of


def never():
    raise AssertionError("the main model's own answer is not needed")


MEALS = Encoder("Meals", "cost")


def test_a_fact_is_left_to_the_model_and_supported_by_its_sentence():
    found = evidence("How long is the warranty?", Scorer("two years", "Oil"), MANUAL, OTHER)
    assert found.has_answer and found.quoted_answer() == []
    (quote,) = found.supporting("two years")
    assert (quote.text, quote.rank, quote.document) == ("The warranty ends after two years.", 1, "manual")
    assert MANUAL[quote.start : quote.end] == quote.text


def test_a_table_cell_is_supported_by_its_row():
    (quote,) = evidence("How heavy is the A10?", Scorer("151 kg"), MANUAL).supporting("151 kg")
    assert quote.text == "| Model: A10 | Weight: 151 kg |"
    assert format_quotes([quote]) == "Model: A10; Weight: 151 kg [1]"


def chosen(found, likelihood=lambda text: 0.0):
    candidates = found.candidates()
    return found.choose(candidates, lambda texts: [likelihood(text) for text in texts])


def test_the_likely_cell_of_the_best_row_answers_whatever_the_model_says():
    found = evidence("How heavy is the A10?", Scorer("151 kg"), MANUAL)
    for likelihood in (lambda text: 0.0, lambda text: -99.0 * ("151" in text)):
        best = chosen(found, likelihood)
        assert (best.text, best.quote.text) == ("151 kg", "| Model: A10 | Weight: 151 kg |")
    assert found.choose(found.candidates(), pytest.fail).text == "151 kg"  # the model is not run


def test_a_cell_is_chosen_by_its_header_and_never_if_the_question_repeats_it():
    row = "| Hotel: London | Limit per night: 190 | Limit at fairs: 250 |"
    for header, cell in (("per night", "190"), ("at fairs", "250")):  # all of the header is in the question
        assert chosen(evidence(f"What is the limit in London {header}?", Scorer("190", "250"), row)).text == cell
    at_fairs = chosen(evidence("What do you pay in London at fairs?", Scorer("190", "250"), row))
    assert (at_fairs.text, at_fairs.highlight) == (format_unit(row), "250")  # likely, but not certain
    which = chosen(evidence("190 per night is the limit of which hotel?", Scorer("190"), row))
    assert "190" not in (which.text, which.highlight)


def test_all_of_a_cell_answers_not_a_part_of_it():
    row = "| Contract: yearly fee | 187,42 \u20ac (half-yearly 96,50 \u20ac) |"
    found = chosen(evidence("How much is the yearly fee?", Scorer("96,50"), row))
    assert found.text == "187,42 \u20ac (half-yearly 96,50 \u20ac)"


@pytest.mark.parametrize(
    ("question", "cell"),
    [
        ("What is the most they can charge for a film?", "5.00"),
        ("What is the least they charge for a film?", "0.20"),
        ("Was kostet ein Film h\u00f6chstens?", "6.00"),
        ("What is the charge per day for a film?", "0.50"),
    ],
)
def test_a_limit_is_the_cell_below_a_header_that_names_it_in_other_words(question, cell):
    english = "| Film | Charge per day: 0.50 | Highest charge: 5.00 | Minimum charge: 0.20 |"
    german = "| Film | Geb\u00fchr pro Tag: 0.50 | H\u00f6chstgeb\u00fchr: 6.00 |"
    row = german if question.startswith("Was") else english
    found = evidence(question, Scorer("0.50", "5.00", "0.20", "6.00"), row)
    assert max(found.candidates(), key=lambda each: each.score).text == cell


def test_the_model_chooses_among_the_likely_spans_of_a_sentence():
    text = "It was opened in 1987, and rebuilt in 2004."
    found = evidence("When was it opened?", Scorer("1987", "2004"), text)
    for year in ("1987", "2004"):
        best = chosen(found, lambda text, year=year: -20.0 * (text != year))
        assert (best.text, best.highlight) == (text, year)


def test_only_a_likely_span_of_the_sentence_that_answers_is_highlighted():
    text = "It was opened in 1987, and rebuilt in 2004."
    for parts, highlight in ((("1987", "2004"), ""), (("1987",), "1987")):
        best = chosen(evidence("When was it opened?", Scorer(*parts), text))
        assert (best.text, best.highlight) == (text, highlight)


def test_facts_are_left_to_the_model_where_its_likelihoods_do_not_count():
    found = evidence("When was it opened?", Scorer("1987"), "It was opened in 1987.")
    answer = Answer(Request("When was it opened?"), Trace())
    assert not fill_quoted_answer(answer, found, None, never) and answer.text == ""
    assert fill_quoted_answer(answer, found, lambda texts: [0.0] * len(texts), never) and answer.is_quoted
    assert (answer.text, answer.highlight) == ("It was opened in 1987. [1]", "1987")


HOPS = "Ida Wren\nWren was born in Ullet. Her mother is Olga Tarn.", "Olga Tarn\nTarn was born on 3 May 1921.", OTHER


def answer_over_two_passages(own, question="When was the mother of Ida Wren born?", passages=HOPS):
    """Return the answer if the span scorer prefers 'Ullet' and the main model's own answer is `own`."""
    answer = Answer(Request(question), Trace())
    found = evidence(question, Scorer("Olga Tarn", "3 May 1921"), *passages)
    assert fill_quoted_answer(answer, found, lambda texts: [0.0] * len(texts), lambda: own)
    return answer


def test_a_fact_that_another_passage_connects_with_the_question_is_the_models_with_both_quotes():
    answer = answer_over_two_passages("3 May 1921")
    assert answer.text == "3 May 1921 [2] [1]"
    assert [quote.text for quote in answer.quotes] == ["Tarn was born on 3 May 1921.", "Her mother is Olga Tarn."]


@pytest.mark.parametrize(
    "own, question, passages",
    [
        ("4 May 1921", "When was the mother of Ida Wren born?", HOPS),  # nowhere
        ("Ullet", "When was the mother of Ida Wren born?", HOPS),  # in the passage that the question names
        ("The passages do not say.", "When was the mother of Ida Wren born?", HOPS),
        ("3 May 1921", "When was she born?", HOPS),  # no name
        ("3 May 1921", "When was Olga Tarn born?", HOPS),
        ("3 May 1921", "When was the mother of Ida Wren born?", (HOPS[0], HOPS[1].replace("Olga Tarn\n", "Care\n"))),
        (  # the subject of another name than the question's
            "3 May 1921",
            "When was the guest of Ada Bell born?",
            ("Ada Bell's guest is Jo Hale. Ida Wren's guest is Olga Tarn.", HOPS[1], "Jo Hale\nHale is old."),
        ),
    ],
)
def test_without_a_connection_the_span_scorer_chooses_the_fact(own, question, passages):
    assert len({quote.rank for quote in answer_over_two_passages(own, question, passages).quotes}) == 1


def test_a_single_word_at_the_start_of_a_sentence_connects_no_passages():
    first = "Ida Wren\nNotes: Wren lives in Ullet."
    assert not find_bridges("Where was Ida Wren born?", [first, "Notes\nShe was born in Pell."])
    (bridge,) = find_bridges("Which river is where Ida Wren lives?", [first, "Ullet\nThe river Tay flows here."])
    assert (bridge.first, bridge.second, bridge.name) == (0, 1, "Ullet")


def test_passages_that_were_found_first_or_share_words_with_the_question_are_read():
    texts = ("A pump costs 20 euros.", *(f"The boat has number {number}." for number in range(7)))
    question = "What does the pump cost?"
    given = PreparedPrompt(texts, (TokenizedText((0,), ((0, 1),)),) * 8, question, question, (0,), 8)
    later = replace(given, texts=texts[::-1])
    assert UnitRanker(given).likely_passages(question) == [0, 1, 2, 3, 4, 5]
    assert UnitRanker(later).likely_passages(question) == [0, 1, 2, 3, 4, 7]
    chunks = [Chunk(f"{n}", "d", "d", n, None, 0, 1, text, "") for n, text in enumerate(texts)]
    found = replace(given, hits=tuple(Hit(chunk, rank, 1, True) for rank, chunk in enumerate(chunks)))
    assert UnitRanker(found).likely_passages(question) == [2, 3, 4, 5, 6, 7]
    whole = replace(found, hits=tuple(replace(hit, score=0.0) for hit in found.hits))
    assert UnitRanker(whole).likely_passages(question) == list(range(8))


def test_similar_embeddings_lift_a_quote_above_a_more_probable_one():
    def best(encoder):
        texts = "It is blue. The hull was painted red.", "It is old."
        return evidence("Which paint has it?", Scorer("blue", "blue", "red"), *texts, encoder=encoder).closest()[0].text

    assert best(None) == "It is blue."
    assert best(Encoder("paint")) == "The hull was painted red."


@pytest.mark.parametrize(
    ("text", "part", "expected"),
    [
        ("costs 2,506 euros", "506", "2,506 euros"),
        ("costs 412.6 million", "412", "412.6"),
        ("a well-known ship", "known", "well-known"),
        ("in 1987, and", "1987", "1987"),
        ("(blue)", "blue", "blue"),
        ("for 15 years.", "15", "15 years"),
        ("for fifteen years", "fifteen", "fifteen years"),
        ("a 12 kg sack", "12", "12 kg"),
        ("12 keys", "12", "12"),
        ("rent of £62,920", "62,920", "£62,920"),
    ],
)
def test_spans_are_widened_to_whole_words_and_numbers(text, part, expected):
    start, end = whole_words(text, text.index(part), text.index(part) + len(part))
    assert text[start:end] == expected


def test_units_cover_a_passage_in_order_and_long_items_are_split():
    item = "- " + "The committee met again in the town hall of Harwick. " * 8
    for text in (MANUAL, OTHER, item):
        units = list(split_units(0, text))
        assert [unit.start for unit in units] == sorted(unit.start for unit in units)
        covered = "".join(text[unit.start : unit.end] for unit in units)
        assert "".join(covered.split()) == "".join(re.sub(r"(?m)^(?:-|\d\.) ", "", text).split())
    assert len(units) == 8


def test_the_row_with_the_superlative_answers():
    values = (("Harrow", 210), ("Stainby", 86), ("Orton", 100))
    rows = "\n".join(f"| Site: {site} | Electricity: {amount} |" for site, amount in values)
    for question, site in (("Which site uses the least electricity?", "Stainby"), ("Which uses the most?", "Harrow")):
        assert chosen(evidence(question, Scorer("Orton"), rows)).text == site


def test_a_code_or_a_range_of_the_question_decides_the_row():
    rows = "| Part: A-1 | Use: pump |\n| Part: A-2 | Use: arm |\n| Part: 10 to 20 kg | Use: crane |"
    assert chosen(evidence("What is A-2 for?", Scorer("pump", "arm", "crane"), rows)).text == "arm"
    assert chosen(evidence("What lifts 15 kg?", Scorer("pump", "arm", "crane"), rows)).text == "crane"


def test_a_quote_without_the_number_that_the_question_calls_for_comes_later():
    found = evidence(
        "How much is the fee?", Scorer("landlord", "landlord", "12"), "The landlord sets the fee. The fee is 12 euros."
    )
    assert found.closest()[0].text == "The fee is 12 euros."


def test_who_is_not_answered_with_a_name_of_the_question():
    text = "Anna Holt led it. Ben Frost leads it."
    best = chosen(evidence("Who leads it now that Holt has gone?", Scorer("Holt", "Frost"), text))
    assert (best.text, best.highlight) == ("Ben Frost leads it.", "Frost")


def test_the_version_with_the_year_of_the_question_answers():
    texts = "Meals cost 30 euros.", "Meals cost 36 euros."
    names = ("policy_2022.docx", "policy_2024.docx")
    questions = ("What do meals cost in the 2024 policy?", "And meals in 2022?", "What do meals cost?")
    for question, expected in zip(questions, ("36", "30", "36"), strict=True):
        found = evidence(question, Scorer("30", "36"), *texts, documents=names)
        assert expected in found.closest()[0].text


def test_a_follow_up_about_a_code_is_not_about_the_code_before_it():
    rows = "| Code: F01 | Meaning: no signal |\n| Code: F03 | Meaning: motor blocked |"
    found = evidence("and F03?", Scorer("no signal"), rows, history="What does F01 mean? No signal.")
    assert chosen(found).quote.text.startswith("| Code: F03")


def test_a_sentence_is_found_by_the_heading_above_it():
    text = "## Summer\n\nKeep it open.\n\n## Winter\n\nKeep it shut."
    assert (
        evidence("What about winter?", Scorer("Keep it open", "Keep it shut"), text).closest()[0].text
        == "Keep it shut."
    )


def test_a_column_that_the_question_names_decides_the_cell():
    rows = "| Charging time | R600: 70 min | R1200: 110 min | R1200 Pro: 95 min |"
    found = evidence("How long does the R1200 Pro charge?", Scorer("70", "110", "95"), rows)
    assert chosen(found).text == "95 min"


def test_a_row_with_the_year_of_the_question_comes_before_a_sentence_without_it():
    text = "We employed 779 people.\n\n| Employees | 2020: 812 | 2021: 655 |"
    assert chosen(evidence("How many people were employed in 2021?", Scorer("779", "655"), text)).text == "655"


def test_a_follow_up_is_not_answered_by_what_was_said_before():
    rows = "| Record: Photos | Kept for: 5 years |\n| Record: Complaints | Kept for: 6 years |"
    earlier = "How long are photos kept? Photos are kept for 5 years."
    found = evidence("and complaints?", Scorer("5", "5", "5", "6"), rows, history=earlier)
    assert chosen(found).quote.text.startswith("| Record: Complaints")


def test_a_follow_up_about_another_year_is_answered_by_a_quote_with_that_year():
    text = "The board proposes a dividend of 3 per cent.\n\nThe year 2022 had 4 per cent."
    earlier = "Which dividend does the board propose? A dividend of 3 per cent."
    found = evidence("And for 2022?", Scorer("3", "3", "4"), text, history=earlier)
    assert chosen(found).quote.text == "The year 2022 had 4 per cent."


def test_a_yes_no_question_gets_the_sentence_that_decides_it():
    quotes = evidence("Is it blue?", Scorer("blue"), MANUAL, OTHER).quoted_answer()
    assert texts_of(quotes) == ["It is blue."] and quotes[0].rank == 2


def test_an_answer_to_be_checked_says_neither_yes_nor_no():
    found = evidence("Is it blue?", Scorer("blue"), OTHER)
    for right, lead in ((MIN_TRUSTED_CONFIDENCE, "Yes: "), (MIN_TRUSTED_CONFIDENCE - 0.01, "")):
        found.confidence = Confidence(right, 0.9)
        assert found.lead(found.quoted_answer()) == lead


def test_only_a_sentence_gets_a_verdict():
    found = evidence("Is it blue?", Scorer("blue"), OTHER)
    assert found.lead(found.quoted_answer()) == "Yes: "
    assert found.lead([Quote(1, 0, 9, "| Colour: blue |")]) == ""
    assert evidence("How old is it?", Scorer("blue"), OTHER).lead(found.quoted_answer()) == ""


def test_only_a_comparison_of_two_documents_says_what_changed():
    quotes = [Quote(1, 0, 9, "It costs 30 euros.", "2023"), Quote(2, 0, 9, "It costs 36 euros.", "2025")]
    compared = evidence("How did the cost change?", Scorer("blue"), OTHER)
    assert compared.lead(quotes) == "30 euros → 36 euros\n"
    assert compared.lead([replace(quote, document="2023") for quote in quotes]) == ""
    assert evidence("What does it cost?", Scorer("blue"), OTHER).lead(quotes) == ""


def test_a_row_that_holds_both_things_to_compare_is_enough():
    rows = "| Value: Members | 2020: 161 | 2024: 148 |\n| Value: Fruit | 2020: 33 | 2024: 31 |"
    found = evidence("Compare the members in 2020 and 2024", Scorer("161", "33"), rows)
    assert texts_of(found.quoted_answer()) == ["| Value: Members | 2020: 161 | 2024: 148 |"]


def test_a_comparison_shows_the_counterpart_of_the_best_quote_in_the_other_document():
    texts = "Meals cost at most 30 euros. Trips are booked early.", "Trains are fine. Meals cost at most 36 euros."
    found = evidence("How did the cost of Meals change?", Scorer("30 euros", "fine"), *texts, encoder=MEALS)
    assert texts_of(found.quoted_answer()) == ["Meals cost at most 30 euros.", "Meals cost at most 36 euros."]


def test_a_comparison_quotes_both_documents():
    found = evidence("How did the warranty change?", Scorer("two years", "three years"), MANUAL, OTHER)
    assert found.kind is QuestionKind.COMPARISON
    assert [(quote.document, quote.rank) for quote in found.quoted_answer()] == [("manual", 1), ("other", 2)]


def test_a_comparison_of_editions_shows_the_rows_of_both():
    table = "## Fees\n\n| Item: Final exam | Fee: {} |\n| Item: Late registration | Fee: {} |"
    texts = table.format(240, 40), table.format(210, 25)
    names = "rules_2025.docx", "rules_2021.docx"
    fields = {"documents": names, "encoder": Encoder("exam", "registration")}
    found = evidence("final exam and late registration, old vs new rules", Scorer("240"), *texts, **fields)
    assert [re.findall(r"\d+", text)[-1] for text in texts_of(found.quoted_answer())] == ["210", "25", "240", "40"]
    found = evidence("Compare the final exam and late registration", Scorer("240"), *texts, **fields)
    assert [re.findall(r"\d+", text)[-1] for text in texts_of(found.quoted_answer())] == ["240", "40"]


def test_a_comparison_is_answered_by_the_lines_that_the_best_quote_announces():
    text = "Hello.\n\nI have two offers for the roof:\n\n  Gannet 3,190 in two weeks\n  Apex 4,275 in March\n\nBye."
    (quote,) = evidence("Compare the two offers for the roof.", Scorer("two offers"), text).quoted_answer()
    assert quote.text == "Gannet 3,190 in two weeks\n  Apex 4,275 in March"


def test_two_questions_in_one_get_two_quotes():
    class ByQuestion:
        def score(self, question, texts, cancel=None, read=None):
            return Scorer("blue" if "colour" in question else "three").score(question, texts)

    found = evidence("How long is the warranty, and which colour does the pump have?", ByQuestion(), OTHER)
    assert texts_of(found.quoted_answer()) == ["The warranty ends after three years.", "It is blue."]


def test_a_summary_quotes_the_opening_of_one_document_and_what_the_question_names_in_their_order():
    text = " ".join(f"Ferry number {n} carries many cars to the old town." for n in range(7))
    last = "Repairs in winter took three long months."
    quotes = evidence("Summarize the repairs.", Scorer(), f"{text} {last}", OTHER).quoted_answer()
    assert [quote.text for quote in quotes[:5]] == [f"{each}." for each in text.split(". ")[:5]]
    assert quotes[-1].text == last and len(quotes) <= 9 and {quote.rank for quote in quotes} == {1}
    assert [quote.start for quote in quotes] == sorted(quote.start for quote in quotes)


def test_a_summary_begins_with_the_title_and_has_whole_sentences():
    text = (
        "Press release 17, Portlannan, 22 May\n\n# Pelham orders two ferries\n\nContents of the release: ferries (2)"
        "\n\nThe two ferries of Pelham sail in May."
    )
    quotes = evidence("Summarize it.", Scorer(), text).quoted_answer()
    assert texts_of(quotes) == ["Pelham orders two ferries", "The two ferries of Pelham sail in May."]
    lines = "Ferries from Pelham to Dunmorra harbour\n\nFerries sail daily from May to June"  # without any sentence
    assert texts_of(evidence("Summarize it.", Scorer(), lines).quoted_answer()) == lines.split("\n\n")


def test_a_summary_has_no_questions_of_the_document():
    text = "1. **Is there a wireless network on board?**\n2. The cabins of all boats have three sockets."
    (quote,) = evidence("Summarize it.", Scorer(), text).quoted_answer()
    assert quote.text == "The cabins of all boats have three sockets."


def test_a_summary_has_the_key_terms_of_an_agreement_and_no_formalities():
    text = (
        "# Lease\n\nDear Ms Osei and Mr Kraus,\n\nThank you for your call about the flat in Pier Street."
        "\n\n| Item: Rent | Details: 900 euros a month |\n| Item: Term | Details: two years from May |"
        "\n\n| Room: Kitchen | Size: 9 | Floor: tiles |\n\nThe tenant pays for gas and for electricity."
    )
    assert texts_of(evidence("Summarize it.", Scorer(), text).quoted_answer()) == [
        "Lease",
        "| Item: Rent | Details: 900 euros a month |",
        "| Item: Term | Details: two years from May |",
        "The tenant pays for gas and for electricity.",
    ]


def test_a_summary_of_a_topic_quotes_the_section_that_has_most_of_the_best_quotes():
    plans = "- a ferry in May\n- a ferry in June\n- a pier"
    text = f"## Trips\n\nA ferry sails daily.\n\n## Plans\n\n{plans}\n\n## Staff\n\nAnn left."
    quotes = evidence("Give me an overview of the plans.", Scorer("May", "June", "a pier"), text).quoted_answer()
    assert texts_of(quotes) == ["a ferry in May", "a ferry in June", "a pier"]


def test_a_summary_begins_with_the_sections_of_the_document_unless_it_is_of_one():
    text = "Ferries sail to all of the old towns.\n\n## Plans\n\n- a ferry in May\n- a ferry in June\n- a pier"
    for question, lead in (
        ("Summarize it.", "Sections: Plans; Staff; Trips\n"),
        ("Give me an overview of the plans.", ""),
    ):
        found = evidence(question, Scorer("May", "June", "a pier"), text)
        found._prepared = replace(found._prepared, sections=("Plans", "Staff", "Trips"))
        assert found.lead(found.quoted_answer()) == lead
    assert evidence("Summarize it.", Scorer("May"), text).lead([]) == ""  # its sections are not known
    found = evidence("Summarize it.", Scorer(), "Die F\u00e4hren fahren im Mai nicht in die alte Stadt.")
    found._prepared = replace(found._prepared, sections=("Mai",))
    assert found.lead([]) == "Abschnitte: Mai\n"


def test_a_summary_of_a_report_is_not_one_of_its_sections():
    plans = "- a ferry in May\n- a ferry in June\n- a pier"
    text = f"# Ferry news\n\nPelham has ordered two new ships for its line.\n\n## The ferries\n\n{plans}"
    quotes = evidence("Sum up the report about the ferries.", Scorer("May", "June", "a pier"), text).quoted_answer()
    assert texts_of(quotes) == ["Ferry news", "Pelham has ordered two new ships for its line."]


def test_a_summary_of_a_document_by_its_title_is_not_what_stands_below_the_title():
    rows = "| Date: 12 May |\n| Chair: Dee Moss |\n| Present: 9 members |"
    text = f"# Minutes of the committee\n\n{rows}\n\n## Water\n\nThe second tap at the gate leaks a lot."
    quotes = evidence(
        "Summarise the committee minutes", Scorer("12 May", "Dee Moss", "9 members"), text
    ).quoted_answer()
    assert texts_of(quotes)[0] == "Minutes of the committee" and "leaks" in texts_of(quotes)[-1]


def test_a_summary_of_all_documents_has_the_title_of_each_and_the_sentence_it_opens_with():
    texts = (
        "## 1. Pump manual\n\nDear all,\n\nClean the pump once a month. Rinse the sieve every second day.",
        "Opening hours of the pool change in May. It is blue.",
        "| Model: A10 | Weight: 151 kg |",
    )
    for question in ("Summarize all documents.", "What are my documents about?", "Worum geht es in allen Dokumenten?"):
        quotes = evidence(question, Scorer("blue"), *texts).quoted_answer()
        expected = [
            (1, "Pump manual"),
            (1, "Clean the pump once a month."),
            (2, "Opening hours of the pool change in May."),
        ]
        assert [(quote.rank, quote.text) for quote in quotes] == [*expected, (3, texts[2])]
    for question in (
        "Summarize the document.",
        "Summarize the insurance documents.",
        "Summarize the files about pumps.",
    ):
        assert {quote.rank for quote in evidence(question, Scorer("blue"), *texts).quoted_answer()} == {1}


def test_without_an_answer_the_closest_quotes_are_shown():
    found = evidence("Who sings?", Scorer("blue", probability=1e-4), MANUAL, OTHER)
    assert not found.has_answer
    assert found.closest()[0].text == "It is blue."


FEES = "The fee is 12 euros. The deposit is 20 euros. The fine is 30 euros. The rent is 40 euros. A key costs 9 euros."
FEE_PARTS = 5 * ["12"] + 4 * ["20"] + 3 * ["30"] + 2 * ["40"] + ["9"]


def answer_from_fees(question, right, texts=(FEES, "The deposit is 20 euros."), scorer=None):
    """Return the answer if the confidence is `right`; the fee is likeliest, then the deposit, fine, rent and key."""
    answer = Answer(Request(question), Trace())
    found = evidence(question, scorer or Scorer(*FEE_PARTS), *texts)
    found.confidence = Confidence(right, 0.9)
    assert fill_quoted_answer(answer, found, lambda texts: [0.0] * len(texts), never)
    return answer


def test_an_answer_to_be_checked_comes_with_other_quotes_that_may_answer_the_most_likely_first():
    answer = answer_from_fees("How much is it?", MIN_TRUSTED_CONFIDENCE - 0.01)
    assert texts_of(answer.quotes) == ["The fee is 12 euros."]
    others = ["The deposit is 20 euros.", "The fine is 30 euros.", "The rent is 40 euros."]  # each once, at most three
    assert texts_of(answer.alternatives) == others
    assert answer_from_fees("How much is it?", MIN_TRUSTED_CONFIDENCE).alternatives == ()


def test_only_quotes_that_are_little_less_likely_may_answer_instead():
    sure = Scorer("12", probability=0.9999)
    assert answer_from_fees("How much is it?", 0.3, (FEES,), sure).alternatives == ()


def test_of_a_question_with_two_parts_the_next_quotes_of_each_may_answer():
    question = "How much is the fee and how much is the deposit?"
    answer = answer_from_fees(question, 0.3, (FEES,))
    assert texts_of(answer.quotes)[0] == "The fee is 12 euros." and answer.alternatives
    assert not set(texts_of(answer.quotes)) & set(texts_of(answer.alternatives))


def test_nothing_may_answer_instead_of_a_summary():
    assert answer_from_fees("Summarize the document.", 0.3).alternatives == ()


def test_the_context_before_a_chunk_and_headings_are_never_quoted():
    for part in ("Pump > Care", "## Cleaning"):
        for quote in evidence("Is it blue?", Scorer(part), MANUAL).quoted_answer():
            assert part not in quote.text


def test_marks_of_emphasis_are_left_out():
    assert format_unit("**Due:** 3 days, 2 ** 3") == "Due: 3 days, 2 ** 3"


def test_several_lines_and_marks():
    quotes = [Quote(1, 0, 9, "- a\n- b"), Quote(2, 0, 9, "c")]
    assert format_quotes(quotes) == "- a\n- b [1]\nc [2]"


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("What does the manual say about the Cleaning?", ["Clean the pump as follows:", "Switch it off.", "Rinse the"]),
        ("What does guide.md say about termination and notice?", ["Two months.", "In writing."]),
        ("What does lease.md say about Termination and notice?", ["Three months."]),
        ("What does lease.md say about Rent by year?", ["| Year: 2025 | Rent: 940 |"]),
    ],
)
def test_a_section_named_by_its_heading_is_quoted_from_the_named_document(question, expected):
    lease = (
        "## Termination and notice\n\nThree months.\n\n## Rent\n\nTable 3: Rent by year\n\n| Year: 2025 | Rent: 940 |"
    )
    guide = "## 4. Termination and notice\n\nTwo months. In writing."
    found = evidence(question, Scorer(), MANUAL, lease, guide, documents=("manual", "lease.md", "guide.md"))
    quotes = found.quoted_answer()
    assert found.has_answer and found.confidence.right >= 0.9
    assert all(quote.text.startswith(text) for quote, text in zip(quotes, expected, strict=False))
    assert len(quotes) >= len(expected) and not any(quote.text.startswith("#") for quote in quotes)


def test_a_topic_that_is_no_heading_is_answered_by_other_rules():
    assert evidence("What does the manual say about the warranty?", Scorer("two years"), MANUAL).quoted_answer() == []
    assert evidence("What does the manual say about ?", Scorer("two years"), MANUAL).quoted_answer() == []


def test_of_each_document_that_is_asked_about_a_topic_a_quote_is_shown_if_it_has_one():
    question = "What do manual and other say about the warranty?"
    found = evidence(question, Scorer("two years"), MANUAL, OTHER, "The warranty is blue.")
    assert found.kind is QuestionKind.COMPARISON and found.has_answer
    quotes = ["The warranty ends after two years.", "The warranty ends after three years."]
    assert texts_of(found.quoted_answer()) == quotes
    assert found.lead(found.quoted_answer()) == "two years → three years\n"
    found = evidence(question.replace("warranty", "oil"), Scorer("Oil it"), MANUAL, OTHER)
    assert texts_of(found.quoted_answer()) == ["Oil it once a month."]


@pytest.mark.parametrize("question", ["What does it cost?", "What does it cost, and when is it open?"])
def test_each_question_is_read_once(question):
    scorer, questions = Scorer("9 euros"), []
    score = scorer.score
    scorer.score = lambda each, *arguments: questions.append(each) or score(each, *arguments)
    found = evidence(question, scorer, "It costs 9 euros. It is open at noon.").read()
    assert found.has_answer and found.quoted_answer() is not None
    assert questions == split_parts(question)


def test_a_row_or_item_is_embedded_below_its_heading():
    text = "## Rent\n\n- Monthly: 985\n- Yearly: 990\n\n## Deposit\n\n- Monthly: 500"
    found = evidence("What is the rent?", Scorer("985", "500"), text, encoder=Encoder("Deposit"))
    (best, *_) = evidence("What is the Deposit?", Scorer("985", "500"), text, encoder=Encoder("Deposit"))._ranked
    assert found._ranker.text(best.unit) == "Monthly: 500" and best.similarity > 0.9


def test_a_number_in_the_question_selects_the_row_with_that_number():
    text = "| Insured: \u00a340,000 | Premium: 147 |\n| Insured: \u00a360,000 | Premium: 196 |"
    for asked, premium in (("60000", "196"), ("\u00a340,000", "147")):
        found = evidence(f"What is the premium for {asked}?", Scorer("147", "196"), text)
        assert premium in texts_of(found.closest())[0]
