"""Which columns of a table a question names."""

from engine.prompt.tables.columns import requested_header


def test_the_question_names_the_column_of_its_answer():
    assert requested_header("Which order was late?", ["customer", "order_id"]) == "order_id"
    assert requested_header("Who was late?", ["customer", "order_id"]) is None
    assert requested_header("Which fence company was the cheapest?", ["Firm", "Fence type"]) is None
    assert requested_header("Which fence type is the cheapest?", ["Firm", "Fence type"]) == "Fence type"
    assert requested_header("Which budget item goes over it the most?", ["Item", "Budget"]) == "Item"
    assert requested_header("Which project spent the most?", ["Project", "Spent"]) == "Project"
    assert requested_header("Welcher Lieferant ist am billigsten?", ["Artikel", "Lieferant"]) == "Lieferant"
