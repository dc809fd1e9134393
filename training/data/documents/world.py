"""What one document family is about: its entities, their values in each version, and how sentences name them."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from training.data.documents.names import Names, slug
from training.data.documents.values import Notation, Value
from training.data.documents.vocabulary import Attribute, EntityClass, Kind, read_vocabulary

SLOT = re.compile(r"\{([^{}]+)\}")
NEAR_VALUE = re.compile("num|money|pct")  # values that differ little from period to period
PLAIN_STEM_FRACTION = 0.15  # of the files have the title as their name
CHANGED_FRACTION = 0.4  # of the values, from one version to the next


@dataclass(frozen=True)
class Entity:
    """Something with a name, and the parts of its word-list entry, if it is one ('fault/cause/remedy')."""

    name: str
    entity_class: EntityClass
    parts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Question:
    """A question that a passage answers, phrased when it is drawn."""

    type: str
    key: tuple[str, ...]  # of the fact: the same in both versions
    answer: str
    ask: Callable[[Random], str]
    subject: tuple[Entity, Attribute] | None = None  # of questions for a value
    absent: str = ""  # of an unanswerable question: what the document does not mention
    is_finished: bool = False  # `ask` returns it in the style of a person


class World:
    """The facts of a document family; the same seed gives the same facts in each version, but for changed values."""

    def __init__(self, seed: str, language: str, kind: Kind, version: int, is_family: bool) -> None:
        rng = Random(f"{seed} world")
        self.seed = seed
        self.words = read_vocabulary(language)
        self.is_german = language == "german"
        self.kind = kind
        self.version = version
        self.is_family = is_family
        self.first_year = rng.randint(2012, 2025)
        self.year = self.first_year + version * (rng.choice((1, 2, 2, 3)) if kind.version == "year" else 1)
        self.names = Names(self.words)
        first = f"{rng.randint(1, 4)}.{rng.randint(0, 9)}"
        number = first if not version else f"{int(first[0]) + rng.randint(0, 1)}.{int(first[2]) + rng.randint(1, 3)}"
        self.version_label = {"year": str(self.year), "number": number}.get(kind.version, "")
        self.notation = Notation(seed, self.names, self.words.lists)
        self._cast: dict[str, list[str]] = {}
        self._used: set[str] = set()
        self.subject = self.entities(kind.subject, 1, "subject")[0]
        self.noun = Random(f"{seed} noun").choice(kind.nouns)
        given = {"E": self.subject.name, "slug": slug(self.subject.name)[:40].strip("-")}
        self.title = self.fill(Random(f"{seed} title").choice(kind.titles), Random(f"{seed} title"), **given)
        self.stem = self.fill(Random(f"{seed} stem").choice(kind.stems), Random(f"{seed} stem"), **given)
        if Random(f"{seed} plain").random() < PLAIN_STEM_FRACTION:
            self.stem = " ".join(re.sub(r"[^\w .-]+", " ", self.title).split())
        if is_family and self.version_label not in self.stem:
            self.stem += Random(f"{seed} separator").choice(("-v", "_v", "-")) + self.version_label

    def rng(self, *purpose: object, reworded: float = 0.0) -> Random:
        """Return the random numbers for a purpose: the same in both versions, unless drawn to be reworded."""
        key = f"{self.seed} {purpose}"
        is_reworded = self.version and Random(f"{key} reworded").random() < reworded
        return Random(f"{key} {self.version}" if is_reworded else key)

    def entities(self, class_name: str, count: int, purpose: object) -> list[Entity]:
        """Return entities with different names."""
        entity_class = self.words.classes[class_name]
        rng = self.rng("entities", class_name, purpose)
        found: dict[str, Entity] = {}
        for _ in range(count * 6):
            name, *parts = self.fill(entity_class.pattern, rng).split("/")
            if name not in self._used and name not in found:
                found[name] = Entity(name, entity_class, tuple(parts))
            if len(found) == count:
                break
        self._used |= set(found)
        return list(found.values())

    def value(self, entity: Entity, attribute: Attribute, period: str = "") -> Value:
        """Return an entity's value, which a later version may have changed unless it is that of a period."""
        if attribute.value.startswith("part:"):
            return Value(entity.parts[int(attribute.value[5:]) - 1])
        key = (entity.name, attribute.name, period)
        is_year = len(period) == 4 and period.isdigit()
        is_changed = self.version and not is_year and self.rng("changed", *key).random() < CHANGED_FRACTION
        rng = Random(f"{self.seed} value {key} {is_changed}")
        spec = attribute.value
        if period and (usual := self.value(entity, attribute).number) and usual > 0 and NEAR_VALUE.match(spec):
            kind, bounds, *unit = spec.split(":")
            low, high = usual * 0.75, usual * 1.35
            near = f"{low:.2f}-{high:.2f}" if "." in bounds or kind == "money" else f"{int(low)}-{int(high) + 2}"
            spec = ":".join([kind, near, *unit])
        return self.notation.draw(spec, rng, self.year if is_changed else self.first_year)

    def label(self, attribute: Attribute) -> str:
        """Return the label of an attribute in this document's tables."""
        return self.rng("label", attribute.name).choice(attribute.labels)

    def fill(self, template: str, rng: Random, **given: str) -> str:
        """Fill the slots of a template: given words, words of lists, names, values ('{=pct:1-9}')."""
        while match := SLOT.search(template):
            slot = match[1]
            word = given[slot] if slot in given else self._word(slot, rng)
            if slot in self.names.draw and slot not in given and word in template:
                word = self.names.draw[slot](rng)
            template = template[: match.start()] + word + template[match.end() :]
        return template

    def sentence(self, template: str, rng: Random, **given: str) -> str:
        """Fill a template and start it with a capital."""
        text = self.fill(template, rng, **given).strip()
        return (text[:1].upper() + text[1:]).replace("..", ".")

    def _word(self, slot: str, rng: Random) -> str:
        if slot in self.words.lists:
            return rng.choice(self.words.lists[slot])
        if slot.startswith("list:"):
            names = {self.fill(f"{{{slot[5:]}}}", rng): None for _ in range(rng.choice((2, 3, 3, 4, 5)))}
            *first, last = names
            return f"{', '.join(first)} {self.words.lists['and'][0]} {last}" if first else last
        if slot[0] == "=":
            return self.notation.draw(slot[1:], rng, self.year).text
        own = {
            "Y": self.year,
            "Y-1": self.year - 1,
            "Y+1": self.year + 1,
            "v": self.version_label,
            "doc": self.kind.nouns[0],
        }
        if slot in own:
            return str(own[slot])
        if slot == "S":
            return self.subject.name
        cast = self._cast.setdefault(slot, [])
        if len(cast) < 4 or rng.random() < 0.3:
            name = self.names.draw[slot](self.rng("cast", slot, len(cast)))
            cast.append(name)
            return name
        return rng.choice(cast[:4])
