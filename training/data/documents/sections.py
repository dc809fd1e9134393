"""Write the sections of a document, with the questions that each piece of text answers."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random

from store.markdown import format_table
from training.data.documents import phrasing
from training.data.documents.values import Value
from training.data.documents.vocabulary import Attribute
from training.data.documents.world import Entity, Question, World

MAX_COLUMNS = 7  # besides that of the names
REWORDED_FRACTION = 0.15  # of the sections are written anew for a second version
JOINED_FRACTION = 0.25  # of the statements are joined to the one before
CLEAR_KINDS = ("phone", "email", "money", "person", "date", "size", "hours", "score")  # understood without a header
GROUPED_FRACTION = 0.08  # of the tables have rows in two groups
UNIT_IN_HEADER_FRACTION = 0.3  # of the columns whose values have the same unit
LIST_MARKERS = ("- ", "- ", "* ", "• ", "a) ")
STEP_MARKERS = ("{}. ", "{}. ", "{}) ")


@dataclass
class Piece:
    """Text that is not split, and the questions it answers."""

    text: str
    questions: list[Question] = field(default_factory=list)
    is_heading: bool = False
    is_row: bool = False  # of a table that continues
    has_pronoun: bool = False  # for something that the piece before it names


class Writer:
    """Writes a document piece by piece."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.pieces: list[Piece] = []
        self._lists = world.words.lists
        self._topics: dict[str, list[list[tuple[str, ...]]]] = {}
        self._count = 0

    def heading(self, text: str, level: int) -> None:
        """Add a heading."""
        self.pieces.append(Piece(f"{'#' * level} {text}", is_heading=True))

    def write(self, content: str) -> None:
        """Add one content of a section, like 'table:site' or 'list:risks'."""
        self._count += 1
        name, *arguments = content.split(":")
        rng = self.world.rng("section", self._count, content, reworded=REWORDED_FRACTION)
        getattr(self, f"_write_{name}")(rng, *arguments)

    # Sentences

    def _write_fill(self, rng: Random, topic: str = "general", sentences: int = 0) -> None:
        self._paragraph(rng, [], topic, sentences or rng.randint(3, 6))

    def _write_facts(self, rng: Random, class_name: str = "", topic: str = "general") -> None:
        world = self.world
        entities = [world.subject]
        if class_name and class_name != world.subject.entity_class.name:
            entities = world.entities(class_name, rng.choice((2, 2, 3)), self._count)
            if not entities:
                return
        attributes = [
            attribute for attribute in entities[0].entity_class.attributes if not attribute.name.endswith("*")
        ]
        attributes = rng.sample(attributes, min(len(attributes), rng.randint(3, 6) if len(entities) == 1 else 3))
        pairs = [(entity, attribute) for attribute in attributes for entity in entities]
        if rng.random() < 0.5:
            pairs = [(entity, attribute) for entity in entities for attribute in attributes]
        pairs = [pair for pair in pairs if len(entities) == 1 or rng.random() < 0.85]
        statements = []
        for index, (entity, attribute) in enumerate(pairs):
            can_shorten = index % 4 > 0 and pairs[index - 1][0] is entity
            statements.append(self._fact(entity, attribute, rng, can_shorten))
        if rng.random() < 0.7 and (statement := self._statement("say", topic, rng)):
            statements.append(statement)
        for start in range(0, len(statements), 4):
            self._paragraph(rng, statements[start : start + 4], topic, rng.randint(1, 3))

    def _fact(self, entity: Entity, attribute: Attribute, rng: Random, can_shorten: bool) -> Piece:
        world = self.world
        value = world.value(entity, attribute).text
        template = rng.choice(attribute.says if attribute.says and rng.random() < 0.7 else self._lists["say_noun"])
        noun = rng.choice(attribute.nouns)
        template = template.replace("{L}", noun[:1].upper() + noun[1:])
        name = rng.choice(entity.entity_class.prefixes) + entity.name
        pronouns = entity.entity_class.pronouns
        is_shortened = can_shorten and pronouns and (template.startswith("{E}") or not world.is_german)
        is_shortened = is_shortened and rng.random() < 0.5
        if is_shortened:
            name = rng.choice(pronouns)
            if template.startswith("{E} ") and rng.random() < 0.3:
                name = self._lists["it"][0] if not world.is_german else name
        sentence = world.sentence(template, rng, E=name, V=value, l=noun)
        piece = Piece(sentence, [self._value_question("fact", entity, attribute, value, text=sentence)])
        piece.has_pronoun = bool(is_shortened)
        if not is_shortened:
            wrong = (
                world.notation.draw(attribute.value, rng, world.year).text if "part:" not in attribute.value else value
            )
            is_right = rng.random() < 0.5 or wrong == value or wrong in sentence
            answer = f"{self._lists['yes_no'][0 if is_right else 1]}: {sentence}"
            ask = partial(self._ask_whether, attribute, entity, value if is_right else wrong)
            key = (entity.name, attribute.name, "whether")
            piece.questions.append(Question("yes/no", key, answer, ask, (entity, attribute)))
        return piece

    def _write_trend(self, rng: Random, topic: str = "general") -> None:
        world = self.world
        subject = world.subject
        yearly = [attribute for attribute in subject.entity_class.attributes if attribute.name.endswith("*")]
        statements = []
        for attribute in rng.sample(yearly, min(len(yearly), rng.randint(2, 4))):
            years = [str(world.year - back) for back in (0, 1)]
            new, old = (world.value(subject, attribute, year) for year in years)
            if new.text == old.text:
                continue
            noun = rng.choice(attribute.nouns)
            given = dict(E=subject.name, l=noun, V=new.text, V0=old.text, y=years[0], y0=years[1])
            if rng.random() < 0.5 and new.number is not None and old.number is not None:
                templates = self._lists["say_rise" if new.number > old.number else "say_fall"]
                sentence = world.sentence(rng.choice(templates), rng, L=noun[:1].upper() + noun[1:], **given)
            else:
                template = f"{rng.choice(self._lists['say_in_year'])} {self._lower(rng.choice(attribute.says))}"
                first = world.sentence(template, rng, **given)
                second = world.sentence(rng.choice(self._lists["say_before"]), rng, **given)
                sentence = f"{first} {second}"
            texts = (new.text, old.text)
            questions = [
                self._value_question("fact", subject, attribute, text, year, sentence)
                for text, year in zip(texts, years, strict=True)
            ]
            statements.append(Piece(sentence, questions))
        self._paragraph(rng, statements, topic, rng.randint(1, 3))

    def _write_dated(self, rng: Random) -> None:
        world = self.world
        subject = world.subject
        numeric = [a for a in subject.entity_class.attributes if a.value.startswith(("money", "pct", "dur", "num"))]
        numeric = [attribute for attribute in numeric if not attribute.name.endswith("*")]
        if not numeric:
            return
        attribute = rng.choice(numeric)
        new, old = world.value(subject, attribute).text, world.value(subject, attribute, "old").text
        day = world.notation.draw("date:-2-0.9", world.rng("dated", attribute.name, world.version), world.year).text
        if new == old:
            return
        given = dict(E=subject.name, l=rng.choice(attribute.nouns), V=new, V0=old, D=day)
        sentence = world.sentence(rng.choice(self._lists["say_dated"]), rng, **given)
        questions = []
        for name, answer in (("new", new), ("old", old), ("since", day)):
            key = (subject.name, attribute.name, name)
            answer = answer if answer in sentence else answer[:1].upper() + answer[1:]
            templates = self._lists[f"ask_{name}"]
            questions.append(Question("dated", key, answer, partial(self._ask_dated, templates, attribute, day, new)))
        self._paragraph(rng, [Piece(sentence, questions)], "general", rng.randint(1, 3))

    def _ask_dated(self, templates: Sequence[str], attribute: Attribute, day: str, new: str, rng: Random) -> str:
        name = phrasing.entity_in_question(self.world, self.world.subject, rng)
        return self.world.fill(rng.choice(templates), rng, e=name, l=rng.choice(attribute.nouns), D=day, V=new)

    def _write_version(self, rng: Random) -> None:
        world = self.world
        if not world.version_label or world.kind.version == "year":
            return
        draw = partial(world.notation.draw, rng=world.rng("dates", world.version), current_year=world.year)
        day, author = draw("date:0-0.9").text, draw("person").text
        given = dict(v=world.version_label, D=day, P=author, doc=world.noun)
        sentence = world.sentence(rng.choice(self._lists["say_version"]), rng, **given)
        questions = [
            Question("dated", ("document", name), answer, partial(self._ask_filled, self._lists[f"ask_{name}"], given))
            for name, answer in (("valid_from", day), ("author", author), ("version", world.version_label))
            if answer in sentence
        ]
        self._paragraph(rng, [Piece(sentence, questions)], "general", rng.randint(0, 1))

    def _ask_filled(self, templates: Sequence[str], given: dict[str, str], rng: Random) -> str:
        return self.world.fill(rng.choice(templates), rng, **given)

    def _write_rule(self, rng: Random, topic: str) -> None:
        statements = []
        for _ in range(rng.choice((1, 2, 2, 3))):
            if (entry := self._take("rule", topic, rng)) is None:
                break
            asks, yes, no = entry
            is_yes = self.world.rng("rule", asks[0], reworded=0.4).random() < 0.5
            given = self._given(rng)
            sentence = self.world.sentence(rng.choice(yes if is_yes else no), rng, **given)
            answer = f"{self._lists['yes_no'][0 if is_yes else 1]}: {sentence}"
            ask = partial(self._ask_filled, asks, given)
            statements.append(Piece(sentence, [Question("yes/no", ("rule", asks[0]), answer, ask)]))
        self._paragraph(rng, statements, topic, rng.randint(1, 3))

    def _write_reason(self, rng: Random, topic: str) -> None:
        names = [name for name in ("why", "if", "def", "how") if f"{name} {topic}" in self.world.words.entries]
        statements = [self._statement(rng.choice(names), topic, rng) for _ in range(rng.choice((2, 2, 3)))]
        self._paragraph(rng, [piece for piece in statements if piece], topic, rng.randint(1, 3))

    def _statement(self, directive: str, topic: str, rng: Random) -> Piece | None:
        """Return a reason, consequence, definition, manner or other fact, with the marked words as the answer."""
        if (entry := self._take(directive, topic, rng)) is None:
            return None
        given = self._given(rng)
        if directive in ("how", "say"):
            asks, templates, *_ = entry
            key = (directive, asks[0])
        else:
            asks, templates = self._lists[f"ask_{directive}"], self._lists[f"say_{directive}"]
            first = rng.choice(entry[0])
            if directive == "why":
                causes = entry[2] if len(entry) > 2 and rng.random() < 0.7 else self._lists["cause"]
                words = {"s": first, "p": rng.choice(entry[1]), "c": rng.choice(causes)}
            else:
                second = entry[1][entry[0].index(first)] if directive == "def" else rng.choice(entry[1])
                words = {"c": first, "r": second}
            given |= {name: self.world.fill(word, rng, **given) for name, word in words.items()}
            given["x"], _, given["p"] = given.get("p", "").partition(" ")
            key = (directive, first)
        before, answer, after = re.split(r"[\[\]]", self.world.fill(rng.choice(templates), rng, **given))
        sentence = self.world.sentence(before + answer + after, rng)
        answer = answer if answer in sentence else answer[:1].upper() + answer[1:]
        question = Question(
            "fact" if directive == "say" else "reason", key, answer, partial(self._ask_filled, asks, given)
        )
        return Piece(sentence, [question])

    # Lists

    def _write_list(self, rng: Random, topic: str) -> None:
        if (entry := self._take("list", topic, rng)) is None:
            return
        nouns, intros, items = entry
        given = self._given(rng)
        changes = self.world.rng("list", nouns[0], reworded=0.5)
        chosen = changes.sample(items, min(len(items), changes.randint(3, 7)))
        filled = self.world.fill("\n".join(chosen), rng, product=given["product"]).split("\n")
        lines = [line[:1].upper() + line[1:] for line in filled]
        marker = rng.choice(LIST_MARKERS)
        if marker == "a) ":
            lines = [f"{'abcdefghij'[at]}) {line}" for at, line in enumerate(lines)]
        else:
            lines = [marker + line for line in lines]
        end = rng.choice(("", "", "."))
        lines = [line + end for line in lines]
        count = self._lists["number_word"][len(lines)]
        noun = rng.choice(nouns)
        intro = self.world.sentence(rng.choice((*intros, *self._lists["say_list"])), rng, n=noun, c=count, **given)
        answer = "\n".join(lines)
        ask = partial(self._ask_list, nouns, count, given)
        separator = rng.choice(("\n", "\n\n"))
        self.pieces.append(Piece(f"{intro}{separator}{answer}", [Question("list", ("list", nouns[0]), answer, ask)]))

    def _ask_list(self, nouns: Sequence[str], count: str, given: dict[str, str], rng: Random) -> str:
        return self.world.fill(rng.choice(self._lists["ask_list"]), rng, n=rng.choice(nouns), c=count, **given)

    def _write_steps(self, rng: Random, topic: str) -> None:
        if (entry := self._take("steps", topic, rng)) is None:
            return
        tasks, steps = entry
        given = self._given(rng)
        changes = self.world.rng("steps", tasks[0], reworded=0.5)
        kept = sorted(changes.sample(range(len(steps)), max(min(3, len(steps)), len(steps) - changes.randint(0, 3))))
        marker = rng.choice(STEP_MARKERS)
        lines = [
            marker.format(number) + self.world.sentence(steps[at], rng, **given) + "."
            for number, at in enumerate(kept, 1)
        ]
        infinitive, gerund = (self.world.fill(task, rng, **given) for task in tasks)
        intro = self.world.sentence(rng.choice(self._lists["say_steps"]), rng, i=infinitive, g=gerund)
        answer = "\n".join(lines)
        ask = partial(self._ask_filled, self._lists["ask_steps"], dict(i=infinitive, g=gerund))
        self.pieces.append(Piece(f"{intro}\n\n{answer}", [Question("steps", ("steps", infinitive), answer, ask)]))

    # Tables

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
            header.append(label)
            columns.append(cells)
            for index, (entity, cell) in enumerate(zip(entities, cells, strict=True)):
                questions[index].append(self._value_question("table", entity, attribute, cell))
                if cells.count(cell) == 1:
                    ask = partial(phrasing.ask_reverse, world, attribute, entity, values[index].text)
                    key = ("reverse", class_name, attribute.name, values[index].text)
                    questions[index].append(Question("reverse", key, entity.name, ask, (entity, attribute)))
            numbers = [value.number for value in values if value.number is not None]
            can_rank = attribute.superlatives or attribute.value.startswith(("num", "money", "pct", "dur"))
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
        if not has_header:  # only what a cell shows by itself can be asked
            kinds = [attribute.value.partition(":")[0] for attribute in attributes]
            clear = {
                a.name
                for a, kind in zip(attributes, kinds, strict=True)
                if kinds.count(kind) == 1 and kind in CLEAR_KINDS
            }
            for asked in questions:
                asked[:] = [q for q in asked if q.subject and q.subject[1].name in clear]
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
        cells = [[world.value(subject, attribute, year).text for year in years] for attribute in yearly]
        if rng.random() < 0.75:
            table = [[corner, *years], *([world.label(a), *row] for a, row in zip(yearly, cells, strict=True))]
        else:
            table = [
                [self._lists["year_header"][0], *map(world.label, yearly)],
                *([y, *row] for y, *row in zip(years, *cells, strict=True)),
            ]
        lines = format_table(table, True).split("\n")
        asked = [
            [
                self._value_question("table", subject, attribute, text, year)
                for year, text in zip(years, row, strict=True)
            ]
            for attribute, row in zip(yearly, cells, strict=True)
        ]
        by_line = (
            asked if len(lines) == len(yearly) and table[0][1] in years else list(map(list, zip(*asked, strict=True)))
        )
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
            [
                self._value_question("table", entity, attribute, text, column)
                for column, text in zip(columns, row, strict=True)
            ]
            for entity, row in zip(entities, cells, strict=True)
        ]
        given = dict(l=world.label(attribute), n=corner, d=header)
        self._rows(world.sentence(rng.choice(self._lists["say_matrix"]), rng, **given), lines.split("\n"), questions)

    def _rows(self, caption: str, lines: Sequence[str], questions: Sequence[list[Question]]) -> None:
        if caption:
            self.pieces.append(Piece(caption, is_heading=True))
        for index, (line, asked) in enumerate(zip(lines, questions, strict=True)):
            self.pieces.append(Piece(line, asked, is_row=index > 0))

    # Helpers

    def _value_question(
        self, type: str, entity: Entity, attribute: Attribute, answer: str, period: str = "", text: str = ""
    ) -> Question:
        """Ask for a value that `text` holds; it may start a sentence there."""
        answer = answer if not text or answer in text else answer[:1].upper() + answer[1:]
        ask = partial(self._ask_value, attribute, entity, period)
        return Question(type, (entity.name, attribute.name, period), answer, ask, (entity, attribute))

    def _ask_value(self, attribute: Attribute, entity: Entity, period: str, rng: Random) -> str:
        is_implicit = entity is self.world.subject and rng.random() < 0.35
        return phrasing.ask_value(self.world, attribute, entity, rng, period, is_implicit)

    def _ask_whether(self, attribute: Attribute, entity: Entity, value: str, rng: Random) -> str:
        name = phrasing.entity_in_question(self.world, entity, rng)
        template = rng.choice(self._lists["ask_whether"])
        return self.world.fill(template, rng, e=name, l=rng.choice(attribute.nouns), v=value)

    def _paragraph(self, rng: Random, statements: Sequence[Piece], topic: str, fillers: int) -> None:
        """Add a paragraph of statements with other sentences between them; of many, two paragraphs."""
        sentences = list[Piece]()
        for piece in statements:
            is_joined = sentences and rng.random() < JOINED_FRACTION and _can_join(sentences[-1], piece)
            if is_joined:
                sentences[-1] = self._join(sentences[-1], piece, rng)
            else:
                sentences.append(piece)
        for _ in range(fillers):
            entry = self._take("fill", topic if rng.random() < 0.8 else "general", rng) or [("",)]
            text = self.world.sentence(entry[0][0], rng) if entry[0][0] else ""
            places = [at for at in range(len(sentences) + 1) if at == len(sentences) or not sentences[at].has_pronoun]
            if text:
                sentences.insert(rng.choice(places), Piece(text))
        if sentences:
            questions = [question for piece in sentences for question in piece.questions]
            self.pieces.append(Piece(" ".join(piece.text for piece in sentences), questions))

    def _join(self, first: Piece, second: Piece, rng: Random) -> Piece:
        """Join two statements to one sentence; it cannot support an answer to a yes/no question."""
        is_same = {q.subject and q.subject[0] for q in first.questions} == {
            q.subject and q.subject[0] for q in second.questions
        }
        joint = rng.choice(self._lists["joint"][: 1 if is_same else None])
        text = f"{first.text[:-1]}{joint} {self._lower(second.text)}"
        questions = [question for question in (*first.questions, *second.questions) if question.type != "yes/no"]
        if any(question.answer not in text for question in questions):
            return first
        return Piece(text, questions, has_pronoun=first.has_pronoun)

    def _take(self, directive: str, topic: str, rng: Random) -> list[tuple[str, ...]] | None:
        """Return an entry that this document has not used yet."""
        name = f"{directive} {topic}"
        if name not in self._topics:
            self._topics[name] = list(self.world.words.entries.get(name, ()))
            self.world.rng("order", name).shuffle(self._topics[name])
        entries = self._topics[name]
        return entries.pop() if entries else None

    def unused_questions(self) -> list[Question]:
        """Return questions for rules, lists and steps of the document's topics that it does not have."""
        world, found = self.world, []
        for name, entries in self._topics.items():
            for entry in entries:
                given = self._given(world.rng("unused", entry[0]))
                if name.startswith("rule"):
                    ask = partial(self._ask_filled, entry[0], given)
                elif name.startswith("steps"):
                    infinitive, gerund = (world.fill(task, world.rng("unused"), **given) for task in entry[0])
                    ask = partial(self._ask_filled, self._lists["ask_steps"], dict(i=infinitive, g=gerund))
                elif name.startswith("list"):
                    asks = [ask for ask in self._lists["ask_list"] if "{c}" not in ask]
                    ask = partial(self._ask_filled, asks, dict(n=entry[0][-1]))
                else:
                    continue
                found.append(Question("unanswerable", (name, entry[0][0]), "", ask, absent=entry[0][-1]))
        return found

    def _given(self, rng: Random) -> dict[str, str]:
        """Return words for the slots that a statement and its question share."""
        world = self.world
        given = {name: world.fill(f"{{{name}}}", rng) for name in ("person", "place", "product", "company", "goods")}
        given |= {"S": world.subject.name}
        return given | ({"product": world.subject.name} if world.kind.subject == "product" else {})

    def _lower(self, template: str) -> str:
        first = template.split(" ")[0]
        return template[:1].lower() + template[1:] if first in self._lists["lower_word"] else template


def _can_join(first: Piece, second: Piece) -> bool:
    """Return whether two statements of values are short enough for one sentence."""
    is_short = len(first.text) + len(second.text) < 160
    return is_short and all(question.subject for question in (*first.questions, *second.questions))
