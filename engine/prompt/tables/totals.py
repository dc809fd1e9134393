"""What the rows of a table add up to: 'How many tickets are open?', 'What did we spend on fuel in total?'.

The answer names the rows by the conditions that they meet, so that a reader sees what was counted or added up. There is
none if the question has a word that is no such condition.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal

from engine.prompt.overlap import content_stems, content_words, stem
from engine.prompt.question_kind import AUXILIARY, PREPOSITION, split_parts
from engine.prompt.tables.amounts import CELL_NUMBER, are_comparable, cell_number, currency, separators
from engine.prompt.tables.columns import (
    PERSON_HEADER,
    TOTAL,
    Cells,
    amount_column,
    column_currency,
    data_rows,
    number_columns,
    requested_header,
)
from engine.prompt.tables.condition import Condition
from engine.prompt.tables.conditions import UNIT_HEADER, conditions, rows_that_meet
from engine.prompt.tables.named_values import EXCLUDED
from engine.prompt.tables.strict import (
    EMPTY,
    MEAN,
    ROWS,
    SUM,
    UMLAUTS,
    is_named,
    row_names,
    strict_conditions,
    words_of,
)
from engine.prompt.tables.superlatives import SUPERLATIVE, is_amount
from engine.text import split_words
from store.german import is_german

COUNTED = re.compile(  # the words before the verb, or the first two
    rf"^(?:how many|wie viele)\s+(?:((?:[\w-]+\s+){{0,4}}?[\w-]+)\s+(?:{AUXILIARY})\b|([\w-]+(?:\s+[\w-]+)?))", re.I
)
COUNT_OF = re.compile(
    r"^(?:what(?:['\u2019]s| is| was) )?(?:the )?(?:total )?(?:number|count) of (?:the |all (?:the )?)?"
    r"|^(?P<german>(?:was ist )?(?:die )?(?:gesamt)?(?:an)?zahl (?:der|aller|an|von) )",
    re.I,
)
TIMES = re.compile(  # each row is once
    r"^how many times (?:did|have|has|do|does) (?:i|we|you|they|he|she)(?: (?:already|ever))? \w+\b", re.I
)
MONEY_IN_ALL = re.compile(  # 'how much' of rows that meet conditions
    r"^how much (?:money\b|(?:is|was|were|did|do|have|has)\b.*\b(?:spen[dt]|paid|open|unpaid|outstanding|overdue|owed))"
    r"|^wie ?viel (?:geld\b|.*\b(?:ausgegeben|gezahlt|bezahlt|offen|unbezahlt|f\u00e4llig))",
    re.I,
)
ANY = re.compile(r"^(?:(?:are|is) there(?: still)?(?: any)?|(?P<german>(?:gibt es|haben wir)(?: noch)?))\b", re.I)
OF = re.compile(rf"\s(?:of|with|without|{PREPOSITION})(?:\s.*|$)", re.I | re.S)  # what follows the word that is counted
AMOUNT_WORD = re.compile(
    r"\b(?:costs?|spen[dt]|spending|paid|pays?|payments?|money|prices?|expen(?:ses?|diture)|earn(?:ed|s|ings)?"
    r"|revenues?|incomes?|worth|amounts?|billed|charge[ds]?|kosten?|kostete[nt]?|gekostet|bezahlt|bezahlen|gezahlt"
    r"|zahlen|ausgegeben|ausgaben?|geld|verdient|verdienen|einnahmen?|eingenommen|umsatz|ums\u00e4tze|betr\u00e4gt|betrag"
    r"|betr\u00e4ge|wert|kostet)\b",
    re.I,
)
PAID = re.compile(r"\b(?:un)?(?:paid|pays?|bezahlt?|gezahlt|bezahlen|zahlen|eingenommen)\b", re.I)
PAID_BY = re.compile(r"(?:paid|bezahlt|gezahlt)[ _](?:by|from|via|von|durch|mit)", re.I)  # by whom, not whether
NUMBER_OF = re.compile(
    r"\b(?:number|count|quantity|anzahl|zahl) (?:of|der|an|von)(?: the| all)? (\w+)|\banzahl\b", re.I
)
HAPPENED = re.compile(r"\b(?:was|were|did|been|wurden?|haben|hat|(?:in )?total|altogether|insgesamt)\b", re.I)
JUDGES = re.compile(
    r"^(?:is|are|were|did|do|does|ha[sd]|have|ist|sind|hat|haben|kosten|kostet|which|welche\w*)\b", re.I
)
EVERY = re.compile(r"\b(?:all|alle[nrs]?|every|each|jede\w*)\b", re.I)
AND = re.compile(r"\b(?:and|und)\b", re.I)
NO_VALUE = re.compile(r"|[-\u2013\u2014?]|none|n/?a|tbd|unassigned|keine?[rs]?|unbekannt|unknown", re.I)
UNIT_PRICE = re.compile(r"\b(?:unit|each|per|rate|balance|saldo|pro)\b|einzel|st\u00fcckpreis", re.I)  # is not added up
PRICE = re.compile(r"price|preis|cost|kosten", re.I)
STOCK = re.compile(r"stock|bestand|quantity|qty|menge|anzahl", re.I)
ITEMS = re.compile(r"items|units|pieces|articles|artikel|st\u00fccke?", re.I)  # what a quantity is of
MOVED = re.compile(
    r"\b(?:orders?|ordered|buys?|bought|sold|sells?|t[ao]kes?|taken|took|bestellt\w*|gekauft|verkauft|nahm\w*)\b", re.I
)
QUANTITY = re.compile(r"quantity|qty|pieces|units|count|menge|anzahl|st\u00fcck(?:zahl)?", re.I)
SEVERAL = re.compile(r"[,;/&+]|\b(?:and|und)\b")  # values in one cell
MAX_NEGATIVE = 0.2  # of the amounts that are added up as costs or as income
MAX_VALUES = 12  # that are counted and named
MIN_TABLE_ROWS = 8  # a smaller table says the sum or mean of all its rows itself
MIN_ROWS = 2  # that are added up
MAX_NOUN_WORDS = 3  # after a superlative, for what is counted
MIN_DECIMALS = 2  # of a mean, and of an amount of money that is not whole


@dataclass(frozen=True, slots=True)
class TableRows:
    """The rows of a whole table that a question means."""

    rows: tuple[Cells, ...] = ()
    result: str = ""  # their number, sum or mean, and their conditions; '' if the question asks to list them


NO_ROWS = TableRows()


def asks_for_result(question: str) -> bool:
    """Return whether a question may ask for a number, sum or mean of rows, or whether there are any."""
    return any(pattern.search(question) for pattern in (COUNTED, COUNT_OF, MONEY_IN_ALL, ANY, SUM, MEAN))


def result_of_rows(question: str, rows: Sequence[Cells], about: str) -> tuple[list[int], str]:
    """Return the rows that a question counts, adds up or averages, and the result as text; none if that is unclear."""
    labels = {row[0][0] for _, row in data_rows(rows)}
    if len(labels) != 1 or len(split_parts(question)) > 1:  # a row without a name may be a total
        return [], ""
    if match := ANY.search(question):
        return _any(question, rows, about, "Ja" if match["german"] else "Yes")
    if SUPERLATIVE.search(question):
        return _largest_group(question, rows, about)
    if JUDGES.search(question):  # 'Is the mean over 5?'
        return [], ""
    if TIMES.search(question):
        found = strict_conditions(TIMES.sub(" ", question), rows, about)
        met = rows_that_meet(found, rows) if found else []
        return met, f"{len(met)} ({'; '.join(map(str, found or ()))})" if met else ""
    question = COUNT_OF.sub(lambda match: "wie viele " if match["german"] else "how many ", question)
    return (_counted if COUNTED.search(question) else _added_up)(question, rows, about)


def _counted(question: str, rows: Sequence[Cells], about: str) -> tuple[list[int], str]:
    """Return the rows that a question counts, and how many: those that the first column calls so and names once.

    Another column may be called so, and its values are counted: 'How many drivers are there?' in a table of trips.
    """
    counted = COUNTED.search(question)
    if counted is None:
        return [], ""
    words = OF.sub("", counted[1]).split()[-1:] if counted[1] else counted[2].split()
    heads = [word.lower() for word in words]
    columns = [
        header for header, _ in rows[0][1:] if len(named := content_words(header)) == 1 and _is_plural(heads[0], *named)
    ]
    quantities = [header for header in number_columns(rows) if QUANTITY.fullmatch(header)]
    is_moved = MOVED.search(question) or SUM.search(question)  # else each row may be an item
    if not columns and ITEMS.fullmatch(heads[0]) and is_moved and len(quantities) == 1:  # 'how many items were sold'
        found = strict_conditions(question, rows, about, heads[0], (*EMPTY, MOVED))
        return _total(question, rows, quantities[0], found) if found else ([], "")
    found = strict_conditions(question, rows, about, " ".join(columns))
    if found is None or len(columns) > 1:
        return [], ""
    if columns:
        return _values_of(columns[0], question, rows, found)
    names = row_names(rows, about)
    if PERSON_HEADER.fullmatch(rows[0][0][0]):  # 'how many engineers', each of which has a name
        names |= {word for each in found for word in content_words(each.words)}
    asked = [word for word in words_of(question, EMPTY) if not is_named(word, names)]
    met = rows_that_meet(found, rows) if found or not asked else []
    is_name = any(is_named(head, names) for head in heads)
    counts_rows = any(is_named(head, ROWS) for head in heads)
    if counts_rows and any(each.header == rows[0][0][0] for each in found):  # of one row
        return [], ""
    is_once = counts_rows or len({rows[index][0][1] for index in met}) == len(met)
    if not met or not is_name or not is_once:
        return [], ""
    return met, f"{len(met)} ({'; '.join(map(str, found))})" if found else str(len(met))


def _any(question: str, rows: Sequence[Cells], about: str, yes: str) -> tuple[list[int], str]:
    """Return the rows that a question asks for, if there are any, and a yes with their number."""
    has_stock = any(STOCK.search(name) for name, _ in rows[0])  # of which nothing may be left
    is_unclear = has_stock or EVERY.search(question) or AND.search(question)  # for all, or for each of two
    found = None if is_unclear else strict_conditions(question, rows, about, empty=(*EMPTY, ANY))
    met = rows_that_meet(found, rows) if found else []
    if not found or not met:
        return [], ""
    return met, f"{yes}, {len(met)} ({'; '.join(map(str, found))})"


def _values_of(column: str, question: str, rows: Sequence[Cells], found: Sequence[Condition]) -> tuple[list[int], str]:
    """Return the rows that meet conditions, and how many different values a column has in them.

    Of quantities, such as 'Nights' but not 'Room', the sum.
    """
    if column in number_columns(rows):
        is_quantity = (
            column.endswith("s") and column.lower() in split_words(question) and bool(HAPPENED.search(question))
        )
        return _total(question, rows, column, found) if is_quantity else ([], "")
    if any(each.header == column or each.is_denied for each in found) or AND.search(question):
        return [], ""
    met = rows_that_meet(found, rows)
    cells = (dict(rows[index]).get(column, "").strip() for index in met)
    values = list(dict.fromkeys(value for value in cells if not NO_VALUE.fullmatch(value)))
    is_quantity = any(QUANTITY.fullmatch(name) for name, _ in rows[0]) or all(map(CELL_NUMBER.fullmatch, values))
    if is_quantity or len(values) > MAX_VALUES or any(map(SEVERAL.search, values)):
        return [], ""
    count = f"{len(values)} {'verschiedene' if is_german(question) else 'different'}"
    return met, f"{count} ({'; '.join([f'{column}: ' + ', '.join(values), *map(str, found)])})"


def _added_up(question: str, rows: Sequence[Cells], about: str) -> tuple[list[int], str]:
    """Return the rows whose numbers a question adds up or averages, and the sum or mean."""
    header = _added_column(question, rows) or _added_column(question, _meant(question, rows))
    if header is None:
        return [], ""
    found = strict_conditions(question, rows, about, header, (*EMPTY, MEAN, AMOUNT_WORD))
    if found is None or not (found or len(rows) >= MIN_TABLE_ROWS) or _is_unclear(question, rows, header, found):
        return [], ""
    return _total(question, rows, header, found)


def _meant(question: str, rows: Sequence[Cells]) -> Sequence[Cells]:
    """Return the rows that meet the conditions of a question: only these may have numbers, not '50.00 a month'."""
    found = conditions(question, rows)
    return [rows[index] for index in rows_that_meet(found, rows)] if found else rows


def _largest_group(question: str, rows: Sequence[Cells], about: str) -> tuple[list[int], str]:
    """Return the rows of the value that has most or least of all, and that: 'Which region took the most in total?'.

    Each value of the column that the question asks for has several rows, which are added up, or counted if the question
    says what they are called: 'Which customer placed the most orders?'.
    """
    match, group = SUPERLATIVE.search(question), requested_header(question, [header for header, _ in rows[0]])
    if match is None or group is None or not (SUM.search(question) or is_amount(question, match)):
        return [], ""
    after = question[match.end("superlative") :]
    rest = f"{question[: match.start('superlative')]}{after}"
    header, nouns = _added_column(rest, rows), split_words(after)[:MAX_NOUN_WORDS]
    is_named_sum = header and (AMOUNT_WORD.search(rest) or content_stems(header) & set(map(stem, nouns)))
    names = row_names(rows, about) | content_words(about)
    is_count = not is_named_sum and any(is_named(word, names) for word in nouns)
    header = header if is_named_sum or (SUM.search(question) and not is_count) else None
    found = strict_conditions(rest, rows, about, f"{group} {header or ''}", (*EMPTY, AMOUNT_WORD, MOVED))
    if found is None or group in number_columns(rows) or not (is_count or header):
        return [], ""
    groups = defaultdict[str, list[int]](list)
    for index in rows_that_meet(found, rows):
        groups[dict(rows[index]).get(group, "").strip()].append(index)
    totals = {value: _sum(question, rows, header, met) if header else float(len(met)) for value, met in groups.items()}
    known = [total for total in totals.values() if total is not None]
    best = (min if match["least"] else max)(known, default=None)
    named = [value for value, total in totals.items() if total == best]
    is_clear = len(known) == len(groups) >= MIN_ROWS and any(len(met) > 1 for met in groups.values())
    if best is None or not is_clear or len(named) > 1 or NO_VALUE.fullmatch(named[0]):
        return [], ""
    is_in_german, met = is_german(question), groups[named[0]]
    explained = [_number_of(met, is_in_german), *map(str, found)]
    if header:
        explained = [f"{'Summe' if is_in_german else 'sum'}: {header} {format_number(best, rows, header)}", *explained]
    return met, f"{named[0]} ({'; '.join(explained)})"


def _total(question: str, rows: Sequence[Cells], header: str, found: Sequence[Condition]) -> tuple[list[int], str]:
    """Return the rows that meet conditions, and the sum of a column over them, or the mean if a question asks for it.

    A table with its own total says that itself.
    """
    has_total = any(TOTAL.match(row[0][1]) for row in rows)
    met = rows_that_meet(found, rows)
    total = _sum(question, rows, header, met)
    if (has_total and not found) or len(met) < MIN_ROWS or total is None:
        return [], ""
    is_mean, is_in_german = bool(MEAN.search(question)), is_german(question)
    amount = format_number(total / len(met) if is_mean else total, rows, header, is_mean)
    name = ("Durchschnitt" if is_mean else "Summe") if is_in_german else ("mean" if is_mean else "sum")
    explained = [f"{name}: {header}", _number_of(met, is_in_german), *map(str, found)]
    return met, f"{amount} ({'; '.join(explained)})"


def _sum(question: str, rows: Sequence[Cells], header: str, met: Sequence[int]) -> float | None:
    """Return the sum of a column over rows; None if they have no numbers that can be added up, or averaged."""
    is_mean = bool(MEAN.search(question))
    values = [number for index in met if (number := cell_number(dict(rows[index]).get(header, ""))) is not None]
    num_negative = sum(value < 0 for value in values)  # 'earn' or 'spend'?
    is_signed = bool(AMOUNT_WORD.search(question)) and MAX_NEGATIVE * len(values) < num_negative < len(values)
    is_price = PRICE.search(header) and any(QUANTITY.fullmatch(name) for name, _ in rows[0])
    is_unclear = is_signed or (not is_mean and (is_price or UNIT_PRICE.search(header.replace("_", " "))))
    if is_unclear or len(values) < len(met) or not _can_be_added(rows, header, is_mean):
        return None
    return sum(values)


def _number_of(met: Sequence[int], is_in_german: bool) -> str:
    return f"{len(met)} {'Zeilen' if is_in_german else 'rows'}"


def _is_unclear(question: str, rows: Sequence[Cells], header: str, found: Sequence[Condition]) -> bool:
    """Return whether a number names a part of its own column: 'room 203'; or 'paid' a state, which is no condition."""
    is_own = any(each.header == header and cell_number(each.text.split(", ")[0]) is not None for each in found)
    is_paid = PAID.search(question) and not any(PAID.search(f"{each.header} {each.words}") for each in found)
    cells = {cell for row in rows for cell in row if cell[0] != header}
    by_whom = {name for name, _ in cells if PAID_BY.fullmatch(name) and all(_has_value(row, name) for row in rows)}
    texts = {text for name, value in cells for text in ((value,) if name in by_whom else (name, value))}
    has_state = any(map(PAID.search, texts))
    return is_own or bool(is_paid and has_state)


def _has_value(row: Cells, header: str) -> bool:
    value = dict(row).get(header, "").strip()
    return not NO_VALUE.fullmatch(value) and not EXCLUDED.search(f"{value} ")


def _can_be_added(rows: Sequence[Cells], header: str, is_mean: bool) -> bool:
    """Return whether the numbers of a column have one unit and currency, and can be read; percentages are not added."""
    values = [dict(row).get(header, "") for row in rows]
    currencies = {currency(value) for row in rows for _, value in row} - {""}
    named_units = {value for row in rows for name, value in row if UNIT_HEADER.fullmatch(name)}
    has_percent = "%" in header or any("%" in value for value in values)
    return are_comparable(values) and max(len(currencies), len(named_units)) <= 1 and (is_mean or not has_percent)


def _is_plural(word: str, noun: str) -> bool:
    word, noun = word.translate(UMLAUTS), noun.translate(UMLAUTS)
    return bool(re.fullmatch(rf"{re.escape(noun)}(?:s|es|en?|n|er)?|{re.escape(noun[:-1])}ies", word))


def _added_column(question: str, rows: Sequence[Cells]) -> str | None:
    """Return the column that a question adds up: one that it names, or of amounts of money; None if that is unclear."""
    columns, stems = number_columns(rows), set(map(stem, split_words(question)))
    named = [header for header in columns if content_stems(header) & stems and not SUM.fullmatch(header)]
    is_amount, amounts = bool(AMOUNT_WORD.search(question)), amount_column(rows)
    if number_of := NUMBER_OF.search(question):
        word = stem((number_of[1] or number_of[0]).lower())
        named = [header for header in named if word in content_stems(header)]
        named = named or [header for header in columns if QUANTITY.fullmatch(header) and QUANTITY.match(number_of[0])]
        return named[0] if len(named) == 1 else None
    if len(named) == 1 and (not is_amount or named[0] == amounts or AMOUNT_WORD.search(named[0])):
        return named[0]
    return amounts if is_amount else columns[0] if len(columns) == 1 else None


def format_number(number: float, rows: Sequence[Cells], header: str, is_mean: bool = False) -> str:
    """Return a number as the cells of its column are written: with their separators, decimals and unit."""
    cells = [cell for row in rows if (cell := CELL_NUMBER.fullmatch(dict(row).get(header, "").strip()))]
    thousands, decimal = separators(cell["digits"] for cell in cells) or ("", "")
    sign, unit = column_currency(header, rows), max((cell["unit"] or "" for cell in cells), key=len)
    fractions = [cell["digits"].rpartition(decimal)[2] for cell in cells if decimal and decimal in cell["digits"]]
    decimals = max(map(len, fractions), default=0)
    decimals = max(decimals, MIN_DECIMALS) if is_mean or (sign and decimals) else decimals
    rounded = Decimal(str(round(number, 9))).quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP)
    text = f"{rounded:,f}".translate({ord(","): thousands, ord("."): decimal or ("," if thousands == "." else ".")})
    if unit and not sign:
        return f"{text} {unit}"
    return f"{text} {sign}" if sign in ("\u20ac", "CHF") else f"{sign}{text}"
