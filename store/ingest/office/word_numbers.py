"""The numbers that Word shows before headings and list items, which a .docx keeps only as rules: '2.1', '(a)', 'iv.'.

They are computed as Word does and written into the text, because people ask for 'section 4.2'.
"""

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from xml.etree.ElementTree import Element, SubElement

from store.ingest.office.word_styles import Styles, attribute, number, value
from store.ingest.web.html import LABEL_END, LABEL_START

NAMESPACES = (  # transitional and strict
    "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}",
    "{http://purl.oclc.org/ooxml/wordprocessingml/main}",
)
ALTERNATIVES = "{http://schemas.openxmlformats.org/markup-compatibility/2006}AlternateContent"
ROMAN = {1000: "m", 900: "cm", 500: "d", 400: "cd", 100: "c", 90: "xc", 50: "l", 40: "xl", 10: "x", 9: "ix", 5: "v"}
ROMAN |= {4: "iv", 1: "i"}


@dataclass(frozen=True, slots=True)
class _Level:
    format: str  # 'decimal', 'lowerLetter', 'bullet', ...
    text: str  # '%1.%2' with the numbers of levels
    start: int
    style: str  # id of the paragraphs' style that has this level


class _Numbering:
    """The lists of a document, and the numbers reached in them. A list is an instance of an abstract list."""

    def __init__(self, numbering: Element, styles: Styles) -> None:
        self._styles = styles
        self._levels: dict[str, dict[int, _Level]] = {}  # by id of the abstract list
        for each in numbering.iterfind("{*}abstractNum"):
            levels = {_index(level): _read_level(level) for level in each.iterfind("{*}lvl")}
            self._levels[attribute(each, "abstractNumId")] = levels
        self._abstract: dict[str, str] = {}  # id of the abstract list, by id of the list
        self._restarts: dict[str, dict[int, int]] = {}  # first number by level, by id of the list
        for each in numbering.iterfind("{*}num"):
            overrides = [(_index(level), level.find("{*}startOverride")) for level in each.iterfind("{*}lvlOverride")]
            self._abstract[attribute(each, "numId")] = value(each.find("{*}abstractNumId"))
            self._restarts[attribute(each, "numId")] = {
                level: number(start) for level, start in overrides if start is not None
            }
        self._counts: defaultdict[str, dict[int, int]] = defaultdict(dict)  # by level, by id of the abstract list

    def next_label(self, paragraph: Element) -> str:
        """Return the number of the next paragraph of the document; '' for a bullet or none."""
        key, level = self._list_of(paragraph)
        abstract = self._abstract.get(key, "")
        levels = self._levels.get(abstract, {})
        if level not in levels:
            return ""
        counts = self._counts[abstract]
        for other, start in self._restarts.pop(key, {}).items():
            counts[other] = start - 1
        counts[level] = counts.get(level, levels[level].start - 1) + 1
        for other in levels:
            if other > level:
                counts.pop(other, None)
            elif other < level:
                counts.setdefault(other, levels[other].start)
        if levels[level].format in ("bullet", "none"):
            return ""
        return re.sub(r"%([1-9])", lambda match: _format(counts, levels, int(match[1]) - 1), levels[level].text)

    def _list_of(self, paragraph: Element) -> tuple[str, int]:
        """Return list and level of a paragraph: its own, else those of its style."""
        own, own_level = (paragraph.find(f"{{*}}pPr/{{*}}numPr/{{*}}{name}") for name in ("numId", "ilvl"))
        style = value(paragraph.find("{*}pPr/{*}pStyle"))
        key = value(own if own is not None else self._styles.find(style, "{*}pPr/{*}numPr/{*}numId"))
        if own_level is not None:
            return key, number(own_level)
        levels = self._levels.get(self._abstract.get(key, ""), {})
        tied = next((index for index, level in levels.items() if style and level.style == style), None)
        inherited = number(self._styles.find(style, "{*}pPr/{*}numPr/{*}ilvl"))
        return key, inherited if tied is None else tied


def write_numbers(document: Element, numbering: Element, styles: Styles) -> None:
    """Write the number of each numbered paragraph before its text, between LABEL_START and LABEL_END."""
    for alternatives in document.iter(ALTERNATIVES):
        for choice in alternatives.findall("{*}Choice"):  # mammoth reads the other one
            alternatives.remove(choice)
    lists = _Numbering(numbering, styles)
    for namespace in NAMESPACES:
        for paragraph in document.iter(f"{namespace}p"):
            label = lists.next_label(paragraph).strip()
            if label and paragraph.find(f".//{namespace}t") is not None:
                run = Element(f"{namespace}r")
                SubElement(run, f"{namespace}t").text = f"{LABEL_START}{label}{LABEL_END}"
                paragraph.insert(int(paragraph[0].tag == f"{namespace}pPr"), run)


def _read_level(level: Element) -> _Level:
    texts = [value(level.find(f"{{*}}{name}")) for name in ("numFmt", "lvlText", "pStyle")]
    return _Level(texts[0], texts[1], number(level.find("{*}start"), default=1), texts[2])


def _index(level: Element) -> int:
    digits = attribute(level, "ilvl")
    return int(digits) if len(digits) == 1 and digits.isdecimal() else 0


def _format(counts: Mapping[int, int], levels: Mapping[int, _Level], index: int) -> str:
    """Return the number reached on a level, as that level writes numbers."""
    if index not in counts or index not in levels:
        return ""
    count, kind = counts[index], levels[index].format
    text = f"{count:02d}" if kind == "decimalZero" else str(count)
    if kind in ("lowerLetter", "upperLetter") and 0 < count < 1000:
        text = chr(ord("a") + (count - 1) % 26) * ((count - 1) // 26 + 1)  # a, b, ... z, aa, bb
    elif kind in ("lowerRoman", "upperRoman") and 0 < count < 4000:
        text = ""
        for part, numeral in ROMAN.items():
            text += numeral * (count // part)
            count %= part
    return text.upper() if kind.startswith("upper") else text
