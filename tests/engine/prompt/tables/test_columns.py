"""Which columns of a table a question names."""

from engine.prompt.tables.columns import requested_header


def test_the_question_names_the_column_of_its_answer():
    assert requested_header("Which order was late?", ["customer", "order_id"]) == "order_id"
    assert requested_header("Who was late?", ["customer", "order_id"]) is None
