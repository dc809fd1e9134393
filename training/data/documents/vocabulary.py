"""Read the word lists and sentence templates of a language from its text file.

A logical line is a directive with fields separated by ' | ', whose items are separated by '; '; lines that start with
a space continue it. `@name a; b` is a word list. In templates, {name} stands for a word of a list, a name or a value.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path


@dataclass(frozen=True)
class Attribute:
    """Something that entities have a value of, and how sentences and questions name it."""

    name: str
    value: str  # how values are drawn, see values.py
    labels: tuple[str, ...]  # in documents: of columns and keys
    nouns: tuple[str, ...]  # in questions and sentences; in German with the article
    says: tuple[str, ...]  # sentences with {E} and {V}
    asks: tuple[str, ...]  # questions with {e}
    reverse: tuple[str, ...] = ()  # questions for the entity, with {n} and {v}
    superlatives: tuple[str, ...] = ()  # 'heaviest; lightest', or whole questions with {n}: of the highest, the lowest


@dataclass(frozen=True)
class EntityClass:
    """A class of things that documents are about."""

    name: str
    pattern: str  # of an entity's name
    headers: tuple[str, ...]  # of the column of names
    nouns: tuple[str, ...]  # for 'Which {n} ...?'
    pronouns: tuple[str, ...]  # 'the device'
    prefixes: tuple[str, ...]  # before the name in a sentence: 'the ' or ''
    attributes: tuple[Attribute, ...]


@dataclass(frozen=True)
class Kind:
    """A kind of document."""

    name: str
    subject: str  # name of an entity class
    titles: tuple[str, ...]
    stems: tuple[str, ...]
    nouns: tuple[str, ...]  # 'report'
    version: str  # 'year', 'number' or 'none'
    sections: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]  # headings and contents


@dataclass
class Vocabulary:
    """All words and templates of a language."""

    lists: dict[str, tuple[str, ...]] = field(default_factory=dict)
    classes: dict[str, EntityClass] = field(default_factory=dict)
    kinds: list[Kind] = field(default_factory=list)
    entries: dict[str, list[list[tuple[str, ...]]]] = field(default_factory=lambda: defaultdict(list))
    # the fields of the other directives, by 'directive topic'


@cache
def read_vocabulary(language: str) -> Vocabulary:
    """Return the vocabulary of 'english' or 'german'."""
    words = Vocabulary()
    attributes = defaultdict[str, list[Attribute]](list)
    classes = []
    for directive, topic, fields in _logical_lines(Path(__file__).with_name(f"{language}.txt")):
        if directive == "attr":
            name, class_names, value = topic.split(maxsplit=2)
            for class_name in class_names.split(","):
                attributes[class_name].append(Attribute(name, value, *fields))
        elif directive == "class":
            classes.append((topic, fields))
        elif directive == "kind":
            name, subject = topic.split()
            titles, stems, nouns, (version,) = fields
            words.kinds.append(Kind(name, subject, titles, stems, nouns, version, ()))
        elif directive == "sec":
            kind = words.kinds[-1]
            contents = tuple(topic.split())
            words.kinds[-1] = Kind(**{**vars(kind), "sections": (*kind.sections, (fields[0], contents))})
        elif directive.startswith("@"):
            words.lists[directive[1:]] = tuple(item for values in fields for item in values)
        else:
            entries = [fields]
            if directive == "fill":
                entries = [[(sentence,)] for sentence in fields[0]]
            for name in topic.split(","):
                words.entries[f"{directive} {name}"] += entries
    for name, ((pattern,), headers, nouns, pronouns, prefixes) in classes:
        prefixes = tuple(prefix.replace("_", " ").replace("-", "") for prefix in prefixes)
        words.classes[name] = EntityClass(name, pattern, headers, nouns, pronouns, prefixes, tuple(attributes[name]))
    return words


def _logical_lines(file: Path) -> Iterator[tuple[str, str, list[tuple[str, ...]]]]:
    """Yield the directive, the topic and the fields of each logical line."""
    joined = re.sub(r"\n +", " ", file.read_text(encoding="utf-8"))
    for line in joined.split("\n"):
        if not line or line.startswith("#"):
            continue
        head, *fields = [part.strip() for part in line.split("|")] if not line.startswith("@") else line.split(" ", 1)
        directive, _, topic = head.partition(" ")
        yield directive, topic.strip(), [tuple(filter(None, map(str.strip, part.split(";")))) for part in fields]
