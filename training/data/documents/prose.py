"""Write statements, lists and steps, with the questions that they answer."""

import re
from collections.abc import Sequence
from functools import partial
from random import Random

from training.data.documents import phrasing
from training.data.documents.vocabulary import Attribute
from training.data.documents.world import Entity, Question
from training.data.documents.writer import Piece, Writer

LIST_MARKERS = ("- ", "- ", "* ", "• ", "a) ")
STEP_MARKERS = ("{}. ", "{}. ", "{}) ")


class ProseWriter(Writer):
    """Writes everything but tables."""

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
        known = world.value(entity, attribute)
        value = known.text
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
            wrong = world.notation.draw(attribute.value, rng, world.year) if "part:" not in attribute.value else known
            is_right = rng.random() < 0.5 or wrong.identity == known.identity or wrong.text in sentence
            answer = f"{self._lists['yes_no'][0 if is_right else 1]}: {sentence}"
            ask = partial(self._ask_whether, attribute, entity, value if is_right else wrong.text)
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
            if new.identity == old.identity:
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
        now, before = world.value(subject, attribute), world.value(subject, attribute, "old")
        new, old = now.text, before.text
        day = world.notation.draw("date:-2-0.9", world.rng("dated", attribute.name, world.version), world.year).text
        if now.identity == before.identity:
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
        name = phrasing.entity_in_question(self.world.subject, rng)
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

    def _write_rule(self, rng: Random, topic: str) -> None:
        statements = []
        for _ in range(rng.choice((1, 2, 2, 3))):
            if (entry := self._take("rule", topic)) is None:
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
        if (entry := self._take(directive, topic)) is None:
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
        template = rng.choice(templates)
        before, answer, after = re.split(r"[\[\]]", self.world.fill(template, rng, **given))
        sentence = self.world.sentence(before + answer + after, rng)
        answer = answer if answer in sentence else answer[:1].upper() + answer[1:]
        type = "list" if "{list:" in template else "fact" if directive == "say" else "reason"
        question = Question(type, key, answer, partial(self._ask_filled, asks, given))
        return Piece(sentence, [question])

    # Lists

    def _write_list(self, rng: Random, topic: str) -> None:
        if (entry := self._take("list", topic)) is None:
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
        if (entry := self._take("steps", topic)) is None:
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
