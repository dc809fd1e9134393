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
WORDS = {"nationality": NATIONALITIES, "occupation": OCCUPATIONS, "industry": INDUSTRIES, "sport": SPORTS}
KINDS = ("person", "person", "person", "town", "company", "work", "work", "building", "club")
COMPARISONS = {  # of a value: question for the smaller, for the larger
    "born": ("Who was born first, {a} or {b}?", "Who is younger, {a} or {b}?"),
    "settled": ("Which town is older, {a} or {b}?", "Which town was founded later, {a} or {b}?"),
    "population": ("Which town has fewer inhabitants, {a} or {b}?", "Which town is larger, {a} or {b}?"),
    "founded": ("Which company was founded first, {a} or {b}?", "Which company is younger, {a} or {b}?"),
    "released": ("Which came out first, {a} or {b}?", "Which was released later, {a} or {b}?"),
    "opened": ("Which opened earlier, {a} or {b}?", "Which opened more recently, {a} or {b}?"),
    "formed": ("Which club is older, {a} or {b}?", "Which club was formed more recently, {a} or {b}?"),
}
SAME = {  # whether two pages share a value
    "nationality": ("Are {a} and {b} of the same nationality?", "Do {a} and {b} have the same nationality?"),
    "occupation": ("Do {a} and {b} have the same profession?", "Are {a} and {b} both {o}s?"),
    "birthplace": ("Were {a} and {b} born in the same town?", "Do {a} and {b} come from the same town?"),
    "town": ("Are {a} and {b} in the same town?", "Are {a} and {b} both located in {o}?"),
    "sport": ("Do {a} and {b} play the same sport?", "Are {a} and {b} both {o} clubs?"),
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
        self._add(self._rng.choice(KINDS))
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
        pairs = answered[:MAX_HOPS] + self._comparisons() + self._shared() + unanswered[:1]
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
        return self._rng.sample(possible, self._rng.randint(min(3, len(possible)), min(5, len(possible))))

    def _object(self, relation: Relation, page: Page) -> str:
        rng = self._rng
        if relation.object == "year":
            return str(rng.randint(1850, 2015))
        if relation.object == "number":
            return f"{rng.randint(900, 400_000):,}"
        if relation.object in WORDS:
            return rng.choice(WORDS[relation.object][: rng.choice((4, 40))])
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
                        found.append((question, target.values.get(second.name, "")))
        self._rng.shuffle(found)
        return found

    def _facts(self) -> Iterator[tuple[Page, Relation]]:
        for page in self.pages.values():
            yield from ((page, each) for each in RELATIONS if each.kind == page.kind and each.name in page.values)

    def _pairs(self, name: str) -> list[tuple[Page, Page]]:
        pages = [page for page in self.pages.values() if name in page.values]
        self._rng.shuffle(pages)
        same_kind = [(a, b) for a, b in itertools.pairwise(pages) if a.kind == b.kind]
        return same_kind[:1]

    def _comparisons(self) -> list[tuple[str, str]]:
        found = []
        for name, questions in COMPARISONS.items():
            for a, b in self._pairs(name):
                first, second = (int(page.values[name].replace(",", "")) for page in (a, b))
                if first != second:
                    is_larger = self._rng.random() < 0.5
                    answer = (a if first > second else b) if is_larger else (a if first < second else b)
                    found.append((questions[is_larger].format(a=a.name, b=b.name), answer.name))
        return self._rng.sample(found, min(3, len(found)))

    def _shared(self) -> list[tuple[str, str]]:
        found = []
        for name, questions in SAME.items():
            for a, b in self._pairs(name):
                question = self._rng.choice(questions).format(a=a.name, b=b.name, o=a.values[name])
                found.append((question, "Yes" if a.values[name] == b.values[name] else "No"))
        return self._rng.sample(found, min(2, len(found)))


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
