"""Invented encyclopedia pages that refer to one another, with questions that need several of them.

Each page is about a person, town, company, work, building or club. Questions follow a reference from one page to
another (two hops), compare the values of two pages, or ask whether two pages share a value. Some cannot be answered.
Names and wordings are not those of `bench/multi_passage`.
"""

import itertools
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

from training.data.documents.names import stem

NATIONALITIES = (
    "American Austrian Brazilian British Canadian Chilean Danish Dutch Finnish French German Greek Indian "
    "Irish Italian Japanese Kenyan Mexican Norwegian Polish Portuguese Spanish Swedish"
).split()
OCCUPATIONS = (
    "actor architect botanist chemist composer cyclist director economist engineer historian journalist lawyer "
    "novelist painter photographer physicist pianist poet politician singer"
).split()
FIRST_NAMES = (
    "Adam Alice Anna Arthur Carla Clara David Edith Elena Emil Frank George Hannah Helen Henry Ida Ivan Jack "
    "Jane Julia Karl Laura Leo Louis Lucy Maria Martin Nina Olga Oscar Paul Peter Robert Rosa "
    "Samuel Sarah Sofia Thomas Victor Walter"
).split()
TITLE_WORDS = (
    "Autumn Bridge Broken City Crossing Dark Distant Dream Empty Evening Fire Forgotten Garden Glass Golden "
    "House Island Last Letter Long Lost Midnight Morning Mountain Night Ocean Paper Promise Quiet Rain Road "
    "Secret Shadow Silent Snow Star Stone Storm Summer Train Voice Winter Wind"
).split()
WORK_KINDS = ("film", "novel", "play", "opera", "television series", "short story")
INDUSTRIES = "aircraft bicycles books carpets cheese clocks furniture medicines paper ships software toys".split()
BUILDING_KINDS = ("bridge", "castle", "church", "library", "museum", "railway station", "stadium", "theatre", "tower")
SPORTS = ("basketball", "football", "handball", "ice hockey", "rowing", "rugby", "volleyball")
USUAL = {"born", "nationality", "author", "architect", "founder", "coach"}  # relations that most pages of a kind have
PAGES = (5, 9)  # pages of one collection
MAX_HOPS = 6  # questions of one collection


@dataclass(frozen=True)
class Relation:
    """What pages of one kind say; {s} is the subject and {o} the object in all wordings."""

    kind: str  # of the subject's page
    name: str
    object: str  # kind of the object's page, or a plain value: year, number, or a word list
    statements: tuple[str, ...]
    questions: tuple[str, ...]
    phrase: str = ""  # names the object in a longer question, if it has a page


def _read_relations() -> Iterator[Relation]:
    for line in Path(__file__).with_name("relations.txt").read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            kind, name, target, statements, questions, *phrase = line.split(" | ")
            wordings = tuple(statements.split("; ")), tuple(questions.split("; "))
            yield Relation(kind, name, target, *wordings, *phrase)


RELATIONS = tuple(_read_relations())
MONTHS = "January February March April May June July August September October November December".split()
WORDS = {"nationality": NATIONALITIES, "occupation": OCCUPATIONS, "industry": INDUSTRIES, "sport": SPORTS}
KINDS = ("person", "person", "person", "town", "company", "work", "work", "building", "club")
COMPARISONS = {  # of a value: questions for the smaller, for the larger
    "born": (
        ("Who was born first, {a} or {b}?", "Who is older, {a} or {b}?"),
        ("Who was born later, {a} or {b}?", "Who is younger, {a} or {b}?"),
    ),
    "died": (("Who died first, {a} or {b}?", "Who died earlier, {a} or {b}?"), ("Who died later, {a} or {b}?",)),
    "settled": (("Which town is older, {a} or {b}?",), ("Which town was founded later, {a} or {b}?",)),
    "population": (("Which town has fewer inhabitants, {a} or {b}?",), ("Which town is larger, {a} or {b}?",)),
    "founded": (("Which company was founded first, {a} or {b}?",), ("Which company is younger, {a} or {b}?",)),
    "released": (
        ("Which {kind} came out first, {a} or {b}?", "Which {kind} came out earlier, {a} or {b}?"),
        ("Which {kind} was released later, {a} or {b}?", "Which {kind} was released more recently, {a} or {b}?"),
    ),
    "opened": (("Which {kind} opened earlier, {a} or {b}?",), ("Which {kind} opened more recently, {a} or {b}?",)),
    "formed": (("Which club is older, {a} or {b}?",), ("Which club was formed more recently, {a} or {b}?",)),
}
LINKED_COMPARISONS = {  # of a value of the people that two pages name
    "born": (
        (
            "Which {kind} has the {role} who was born first, {a} or {b}?",
            "Which {kind} has the older {role}, {a} or {b}?",
        ),
        ("Which {kind} has the {role} who was born later, {a} or {b}?", "Whose {role} is younger, that of {a} or {b}?"),
    ),
    "died": (
        ("Which {kind} has the {role} who died first, {a} or {b}?", "Whose {role} died earlier, that of {a} or {b}?"),
        ("Which {kind} has the {role} who died later, {a} or {b}?", "Whose {role} died later, that of {a} or {b}?"),
    ),
}
SAME = {  # whether two pages share a value
    "nationality": (
        "Are {a} and {b} of the same nationality?",
        "Do {a} and {b} have the same nationality?",
        "Are {a} and {b} from the same country?",
    ),
    "occupation": ("Do {a} and {b} have the same profession?", "Are {a} and {b} both {o}s?"),
    "birthplace": ("Were {a} and {b} born in the same town?", "Do {a} and {b} come from the same town?"),
    "town": ("Are {a} and {b} in the same town?", "Are {a} and {b} both located in {o}?"),
    "sport": ("Do {a} and {b} play the same sport?", "Are {a} and {b} both {o} clubs?"),
}
LINKED_SAME = {  # whether the people that two pages name share a value
    "nationality": (
        "Do {a} and {b} have {role}s of the same nationality?",
        "Are the {role} of {a} and the {role} of {b} from the same country?",
    ),
    "birthplace": ("Were the {role}s of {a} and {b} born in the same town?",),
}
GRANDPARENTS = {  # by the parent and that parent's parent
    ("father", "father"): "paternal grandfather",
    ("father", "mother"): "paternal grandmother",
    ("mother", "father"): "maternal grandfather",
    ("mother", "mother"): "maternal grandmother",
}


@dataclass
class Page:
    """A page before it is written: a name and the objects of its relations."""

    kind: str
    name: str
    label: str  # what it is called besides its name, as in 'the film {name}'
    values: dict[str, str]  # by relation


class Collection:
    """Pages about related entities; the same seed gives the same pages."""

    def __init__(self, seed: str) -> None:
        self._rng = Random(seed)
        self.pages: dict[str, Page] = {}
        count = self._rng.randint(*PAGES)
        pair = self._rng.choice(KINDS)
        for kind in (pair, pair, "person", "person"):
            self._add(kind)
        while len(self.pages) < count:
            self._add(self._rng.choice(KINDS))
        for page in list(self.pages.values()):
            for relation in self._relations(page):
                value = page.values.setdefault(relation.name, self._object(relation, page))
                if relation.name == "spouse" and value in self.pages:
                    self.pages[value].values["spouse"] = page.name

    def passages(self) -> list[str]:
        """Return the text of each page."""
        return [self._write(page) for page in self.pages.values()]

    def questions(self) -> list[tuple[str, str]]:
        """Return questions and their answers; '' where the pages do not say."""
        answered = [pair for pair in self._hops() if pair[1]]
        unanswered = [pair for pair in self._hops() if not pair[1]]
        linked = self._linked_comparisons() + self._linked_shared()
        pairs = answered[:MAX_HOPS] + self._comparisons() + self._shared() + linked + unanswered[:1]
        self._rng.shuffle(pairs)
        return pairs

    def _add(self, kind: str) -> Page:
        rng = self._rng
        name, label = "", ""
        while not name or name in self.pages:
            if kind == "person":
                name = f"{rng.choice(FIRST_NAMES)} {stem(rng)}"
            elif kind == "town":
                name = stem(rng) + rng.choice(("", "burg", "ford", "ton", "ville"))
            elif kind == "company":
                name = f"{stem(rng)} {rng.choice(('Brothers', 'Company', 'Group', 'Industries', 'Works'))}"
            elif kind == "work":
                name = " ".join(["The", *rng.sample(TITLE_WORDS, 2)][rng.random() < 0.5 :])
                label = rng.choice(WORK_KINDS)
            elif kind == "building":
                label = rng.choice(BUILDING_KINDS)
                name = f"{stem(rng)} {label.title()}"
            else:
                name = f"{stem(rng)} {rng.choice(('Athletic', 'Bears', 'Lions', 'Rovers', 'United', 'Wolves'))}"
        self.pages[name] = Page(kind, name, label, {})
        return self.pages[name]

    def _relations(self, page: Page) -> list[Relation]:
        possible = [relation for relation in RELATIONS if relation.kind == page.kind]
        usual = [relation for relation in possible if relation.name in USUAL and self._rng.random() < 0.8]
        drawn = self._rng.sample(possible, self._rng.randint(min(2, len(possible)), min(5, len(possible))))
        return sorted({*usual, *drawn}, key=RELATIONS.index)

    def _object(self, relation: Relation, page: Page) -> str:
        rng = self._rng
        if relation.object == "date":
            year = rng.randint(1800, 1980)
            if relation.name == "died" and "born" in page.values:
                year = _number(page.values["born"]) + rng.randint(20, 90)
            day, month = rng.randint(1, 28), rng.choice(MONTHS)
            return rng.choice((f"{day} {month} {year}", f"{month} {day}, {year}"))
        if relation.object == "year":
            return str(rng.randint(1850, 2015))
        if relation.object == "number":
            return f"{rng.randint(900, 400_000):,}"
        if relation.object in WORDS:
            used = [other.values[relation.name] for other in self.pages.values() if relation.name in other.values]
            return rng.choice(used if used and rng.random() < 0.4 else WORDS[relation.object])
        if relation.object == "name":
            return stem(rng)
        others = [other for other in self.pages.values() if other.kind == relation.object and other is not page]
        linked = [other.name for other in others if relation.name != "spouse" or "spouse" not in other.values]
        if linked and rng.random() < 0.85:
            return rng.choice(linked)
        return f"{rng.choice(FIRST_NAMES)} {stem(rng)}" if relation.object == "person" else stem(rng)

    def _write(self, page: Page) -> str:
        """Return a page: a title, and its facts, from the second on mostly with a short name."""
        rng = self._rng
        short = {"person": page.name.split()[-1], "work": f"the {page.label}"}.get(page.kind, page.name)
        facts = [relation for owner, relation in self._facts() if owner is page]
        rng.shuffle(facts)
        sentences = []
        for number, relation in enumerate(facts):
            subject = page.name if number == 0 else rng.choice((page.name, short, short))
            text = rng.choice(relation.statements).format(s=subject, o=page.values[relation.name])
            text = re.sub(r"\ba (?=[aeiou])", "an ", text)
            sentences.append(text[0].upper() + text[1:])
        return f"{page.name}\n{' '.join(sentences)}"

    def _called(self, page: Page) -> str:
        is_labelled = page.kind == "work" and self._rng.random() < 0.7
        return f"the {page.label} {page.name}" if is_labelled else page.name

    def _hops(self) -> list[tuple[str, str]]:
        """Return questions that follow a reference to another page, in random order, and their answers."""
        found = []
        for page, first in self._facts():
            target = self.pages.get(page.values[first.name])
            if target is not None and first.phrase:
                phrase = first.phrase.format(s=self._called(page))
                for second in RELATIONS:
                    if second.kind == target.kind and (first.name, second.name) != ("spouse", "spouse"):
                        question = self._rng.choice(second.questions).format(s=phrase)
                        grandparent = GRANDPARENTS.get((first.name, second.name))
                        if grandparent and self._rng.random() < 0.8:
                            question = f"Who is the {grandparent} of {page.name}?"
                        found.append((question, target.values.get(second.name, "")))
        self._rng.shuffle(found)
        return found

    def _facts(self) -> Iterator[tuple[Page, Relation]]:
        for page in self.pages.values():
            yield from ((page, each) for each in RELATIONS if each.kind == page.kind and each.name in page.values)

    def _pairs(self, name: str) -> list[tuple[Page, Page]]:
        pages = [page for page in self.pages.values() if name in page.values]
        self._rng.shuffle(pages)
        same_kind = [(a, b) for a, b in itertools.combinations(pages, 2) if a.kind == b.kind]
        return same_kind[:3]

    def _linked_pairs(self, name: str) -> Iterator[tuple[str, Page, Page, str, str]]:
        """Yield role, two pages that name a person in that role, and the value `name` of each person."""
        for relation in RELATIONS:
            role = re.match(r"the ([\w ]+) of", relation.phrase)
            if relation.object == "person" and role and relation.kind != "person":
                for a, b in self._pairs(relation.name):
                    first, second = (self._linked_value(page, relation.name, name) for page in (a, b))
                    if first and second:
                        yield role[1], a, b, first, second

    def _linked_value(self, page: Page, relation: str, name: str) -> str:
        linked = self.pages.get(page.values[relation])
        return linked.values.get(name, "") if linked else ""

    def _compare(
        self, wordings: tuple[tuple[str, ...], ...], a: Page, b: Page, values: tuple[str, str], role: str = ""
    ) -> list[tuple[str, str]]:
        """Return a question which of two pages has the smaller or larger value, with its answer."""
        first, second = map(_number, values)
        if first == second:
            return []
        is_larger = self._rng.random() < 0.5
        answer = a if (first > second) == is_larger else b
        kind = a.label if a.label == b.label and a.label else a.kind
        wording = self._rng.choice(wordings[is_larger])
        return [(wording.format(a=a.name, b=b.name, kind=kind, role=role), answer.name)]

    def _comparisons(self) -> list[tuple[str, str]]:
        found = []
        for name, wordings in COMPARISONS.items():
            for a, b in self._pairs(name):
                found += self._compare(wordings, a, b, (a.values[name], b.values[name]))
        return self._rng.sample(found, min(3, len(found)))

    def _linked_comparisons(self) -> list[tuple[str, str]]:
        found = []
        for name, wordings in LINKED_COMPARISONS.items():
            for role, a, b, *values in self._linked_pairs(name):
                found += self._compare(wordings, a, b, (values[0], values[1]), role)
        return self._rng.sample(found, min(3, len(found)))

    def _shared(self) -> list[tuple[str, str]]:
        found = []
        for name, questions in SAME.items():
            for a, b in self._pairs(name):
                question = self._rng.choice(questions).format(a=a.name, b=b.name, o=a.values[name])
                found.append((question, "Yes" if a.values[name] == b.values[name] else "No"))
        return self._balanced(found)

    def _balanced(self, found: list[tuple[str, str]]) -> list[tuple[str, str]]:
        """Return one question with the answer Yes and one with No, where there are such."""
        self._rng.shuffle(found)
        by_answer = {answer: (question, answer) for question, answer in found}
        return list(by_answer.values())

    def _linked_shared(self) -> list[tuple[str, str]]:
        found = []
        for name, questions in LINKED_SAME.items():
            for role, a, b, first, second in self._linked_pairs(name):
                question = self._rng.choice(questions).format(a=a.name, b=b.name, role=role)
                found.append((question, "Yes" if first == second else "No"))
        return self._balanced(found)


def _number(value: str) -> int:
    """Return the number of inhabitants, or the year of a date."""
    return int(re.findall(r"\d+", value.replace(",", ""))[-1])


def write_linked_pages(count: int, seed: int, out: Path) -> Counter[str]:
    """Write `count` collections as JSON lines; return the number of passages and questions."""
    counts = Counter[str]()
    with out.open("w", encoding="utf-8") as file:
        for number in range(count):
            collection = Collection(f"{seed} {number}")
            passages, pairs = collection.passages(), collection.questions()
            qas = [{"question": question, "answers": [answer] if answer else []} for question, answer in pairs]
            file.write(json.dumps({"passages": passages, "qas": qas}) + "\n")
            counts.update(passages=len(passages), questions=len(pairs), unanswerable=sum(not one for _, one in pairs))
    return counts
