"""Write tables, with the questions about their cells."""

from collections.abc import Sequence
from functools import partial
from itertools import chain
from random import Random

from store.markdown import format_table
from training.data.documents import phrasing
from training.data.documents.values import Value
from training.data.documents.vocabulary import Attribute
from training.data.documents.world import Entity, Question
from training.data.documents.writer import Piece, Writer

MAX_COLUMNS = 7  # besides that of the names
CLEAR_KINDS = ("phone", "email", "money", "person", "date", "size", "hours", "score")  # understood without a header
GROUPED_FRACTION = 0.08  # of the tables have rows in two groups
NIL_FRACTION = 0.6  # of the rows that may have a year without a value
NEAR_KINDS = ("num", "money", "pct", "dur")  # of values that have a highest and a lowest one
UNIT_IN_HEADER_FRACTION = 0.3  # of the columns whose values have the same unit


class TableWriter(Writer):
    """Writes tables."""

    def _write_kv(self, rng: Random) -> None:
        world = self.world
        subject = world.subject
        attributes = [a for a in subject.entity_class.attributes if not a.name.endswith("*")]
        attributes = rng.sample(attributes, min(len(attributes), rng.randint(4, 10)))
        cells = [(world.label(attribute), world.value(subject, attribute).text) for attribute in attributes]
        lines = format_table(cells, False).split("\n")
        questions = [
            [self._value_question("table", subject, attribute, text)]
            for attribute, (_, text) in zip(attributes, cells, strict=True)
        ]
        self._rows("", lines, questions)

    def _write_table(self, rng: Random, class_name: str) -> None:
        world = self.world
        rows = rng.choice((3, 4, 5, 6, 7, 8, 10, 12)) if rng.random() < 0.88 else rng.randint(13, 30)
        entities = world.entities(class_name, rows, self._count)
        if len(entities) < 2:
            return
        entity_class = entities[0].entity_class
        attributes = [a for a in entity_class.attributes if not a.name.endswith("*")]
        attributes = rng.sample(attributes, min(len(attributes), rng.choice((1, 2, 2, 3, 3, 4, 5, 6, MAX_COLUMNS))))
        header = [rng.choice(entity_class.headers)]
        columns = list[list[str]]()
        questions: list[list[Question]] = [[] for _ in entities]
        for attribute in attributes:
            values = [world.value(entity, attribute) for entity in entities]
            label, cells = self._column(attribute, values, rng)
            identities = [value.identity for value in values]
            header.append(label)
            columns.append(cells)
            for index, (entity, cell) in enumerate(zip(entities, cells, strict=True)):
                questions[index].append(self._value_question("table", entity, attribute, cell))
                if identities.count(identities[index]) == 1:
                    ask = partial(phrasing.ask_reverse, world, attribute, entity, values[index].text)
                    key = ("reverse", class_name, attribute.name, values[index].text)
                    questions[index].append(Question("reverse", key, entity.name, ask, (entity, attribute)))
            numbers = [value.number for value in values if value.number is not None]
            can_rank = attribute.superlatives or attribute.value.startswith(NEAR_KINDS)
            if len(numbers) == len(values) <= 12 and can_rank:
                for is_highest in (True, False):
                    number = max(numbers) if is_highest else min(numbers)
                    if numbers.count(number) == 1:
                        entity = entities[numbers.index(number)]
                        ask = partial(phrasing.ask_extreme, world, attribute, entity, is_highest)
                        key = ("extreme", class_name, attribute.name, str(is_highest))
                        questions[numbers.index(number)].append(Question("superlative", key, entity.name, ask))
        table = [header, *([e.name, *cells] for e, *cells in zip(entities, *columns, strict=True))]
        caption = ""
        if rng.random() < 0.7:
            caption = world.sentence(rng.choice(self._lists["say_table"]), rng, n=header[0], l=header[1])
        has_header = len(header) == 2 or rng.random() < 0.92
        if has_header and len(header) > 2 and len(entities) >= 4 and rng.random() < GROUPED_FRACTION:
            half = len(entities) // 2
            first, second = rng.sample(self._lists["dim_region"][1:], 2)
            table = [header, [first], *table[1 : 1 + half], [second], *table[1 + half :]]
            questions = [[], *questions[:half], [], *questions[half:]]
        lines = format_table(table if has_header else table[1:], has_header).split("\n")
        if not has_header:  # only what a cell shows by itself makes a question
            kinds = [attribute.value.partition(":")[0] for attribute in attributes]
            clear = {
                a.name
                for a, kind in zip(attributes, kinds, strict=True)
                if kinds.count(kind) == 1 and kind in CLEAR_KINDS
            }
            for of_row in questions:
                of_row[:] = [q for q in of_row if q.subject and q.subject[1].name in clear]
        self._rows(caption, lines, questions)

    def _column(self, attribute: Attribute, values: Sequence[Value], rng: Random) -> tuple[str, list[str]]:
        """Return a column's header and cells; sometimes the header has the unit."""
        label = self.world.label(attribute)
        units = {value.unit for value in values}
        if len(units) == 1 and "" not in units and rng.random() < UNIT_IN_HEADER_FRACTION:
            (unit,) = units
            if all(value.text.endswith(unit) for value in values):
                shown = rng.choice(
                    (f"{label} ({unit.strip()})", f"{label} [{unit.strip()}]", f"{label} in {unit.strip()}")
                )
                return shown, [value.text.removesuffix(unit) for value in values]
        return label, [value.text for value in values]

    def _write_series(self, rng: Random) -> None:
        """Write the yearly values of the subject: years are columns or rows."""
        world = self.world
        subject = world.subject
        yearly = [attribute for attribute in subject.entity_class.attributes if attribute.name.endswith("*")]
        yearly = rng.sample(yearly, min(len(yearly), rng.randint(3, 8)))
        years = [str(world.year - back) for back in range(rng.choice((2, 2, 3, 3, 4, 5)))]
        years = years if rng.random() < 0.6 else years[::-1]
        corner = rng.choice(self._lists["series_header"])
        values = [[world.value(subject, attribute, year) for year in years] for attribute in yearly]
        self._leave_out(yearly, values, rng)
        cells = [[value.text for value in row] for row in values]
        if rng.random() < 0.75:
            table = [[corner, *years], *([world.label(a), *row] for a, row in zip(yearly, cells, strict=True))]
        else:
            table = [
                [self._lists["year_header"][0], *map(world.label, yearly)],
                *([y, *row] for y, *row in zip(years, *cells, strict=True)),
            ]
        lines = format_table(table, True).split("\n")
        dimension = self._lists["year_header"][0]
        by_cell = [
            self._cell_questions(subject, attribute, row, years, dimension)
            for attribute, row in zip(yearly, values, strict=True)
        ]
        if table[0][1] not in years:
            by_cell = list(map(list, zip(*by_cell, strict=True)))
        by_line = [list(chain.from_iterable(row)) for row in by_cell]
        caption = world.sentence(rng.choice(self._lists["say_series"]), rng) if rng.random() < 0.6 else ""
        self._rows(caption, lines, by_line)

    def _write_matrix(self, rng: Random, class_name: str, attribute_name: str, dimension: str) -> None:
        """Write one attribute of several entities by month, zone, size ...: `@dim_...` lists the header first."""
        world = self.world
        entities = world.entities(class_name, rng.randint(3, 7), self._count)
        if not entities:
            return
        attribute = next(a for a in entities[0].entity_class.attributes if a.name == attribute_name)
        header, *all_columns = self._lists[f"dim_{dimension}"]
        count = min(len(all_columns), rng.randint(3, 6))
        start = rng.randint(0, len(all_columns) - count)
        columns = all_columns[start : start + count]
        values = [[world.value(entity, attribute, column) for column in columns] for entity in entities]
        if attribute.value.startswith("clock"):
            values = [sorted(row, key=lambda value: value.number or 0) for row in values]
        cells = [[value.text for value in row] for row in values]
        corner = rng.choice(entities[0].entity_class.headers)
        lines = format_table(
            [[corner, *columns], *([e.name, *row] for e, row in zip(entities, cells, strict=True))], True
        )
        questions = [
            list(chain.from_iterable(self._cell_questions(entity, attribute, row, columns, header)))
            for entity, row in zip(entities, values, strict=True)
        ]
        given = dict(l=world.label(attribute), n=corner, d=header)
        self._rows(world.sentence(rng.choice(self._lists["say_matrix"]), rng, **given), lines.split("\n"), questions)

    def _cell_questions(
        self, entity: Entity, attribute: Attribute, values: Sequence[Value], columns: Sequence[str], dimension: str
    ) -> list[list[Question]]:
        """Return the questions for each value of an entity by year, month, zone ..., and for the column of a value."""
        cells = [value.text for value in values]
        identities = [value.identity for value in values]
        questions = [
            [self._value_question("table", entity, attribute, text, column)]
            for text, column in zip(cells, columns, strict=True)
        ]
        forms = [
            ("none" if text in self._lists["nil"] else "value", text, text)
            for text, identity in zip(cells, identities, strict=True)
            if identities.count(identity) == 1
        ]
        numbers = [value.number for value in values if value.number is not None]
        if len(numbers) == len(values) > 2 and attribute.value.startswith(NEAR_KINDS):
            for form, number in (("high", max(numbers)), ("low", min(numbers))):
                if numbers.count(number) == 1:
                    forms.append((form, "", cells[numbers.index(number)]))
        for form, value, text in forms:
            at = cells.index(text)
            ask = partial(phrasing.ask_column, self.world, attribute, entity, dimension, form, value)
            key = ("column", entity.name, attribute.name, form, value)
            questions[at].append(Question("column", key, columns[at], ask))
        return questions

    def _leave_out(self, attributes: Sequence[Attribute], values: Sequence[list[Value]], rng: Random) -> None:
        """Replace a value of some attributes by 'nil': years without a dividend, without accidents ..."""
        nil = rng.choice(self._lists["nil"])
        for attribute, row in zip(attributes, values, strict=True):
            if f"none_{attribute.name.rstrip('*')}" in self._lists and rng.random() < NIL_FRACTION:
                row[rng.randrange(len(row))] = Value(nil)

    def _rows(self, caption: str, lines: Sequence[str], questions: Sequence[list[Question]]) -> None:
        if caption:
            self.pieces.append(Piece(caption, is_heading=True))
        for index, (line, of_row) in enumerate(zip(lines, questions, strict=True)):
            self.pieces.append(Piece(line, of_row, is_row=index > 0))
