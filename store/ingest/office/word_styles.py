"""The styles of a Word file, which inherit from each other, and values of its XML elements.

Names are matched in any namespace: transitional and strict files differ in it.
"""

from collections.abc import Iterator
from xml.etree.ElementTree import Element


class Styles:
    """The styles of styles.xml."""

    def __init__(self, styles: Element) -> None:
        self._styles = {attribute(style, "styleId"): style for style in styles.iterfind("{*}style")}

    def find(self, style: str, path: str) -> Element | None:
        """Return what a style, or the nearest one that it is based on, has at a path; None if none has it."""
        found = (self._styles[name].find(path) for name in self._ancestors(style))
        return next((element for element in found if element is not None), None)

    def heading_names(self) -> Iterator[tuple[str, int]]:
        """Yield name and level, from 1, of each style of headings."""
        for style, element in self._styles.items():
            level = value(self.find(style, "{*}pPr/{*}outlineLvl"))
            if level in tuple("012345"):
                yield value(element.find("{*}name")), int(level) + 1

    def _ancestors(self, style: str) -> list[str]:
        names: list[str] = []
        while style in self._styles and style not in names:
            names.append(style)
            style = value(self._styles[style].find("{*}basedOn"))
        return names


def value(element: Element | None) -> str:
    """Return the `val` of an element; '' if there is none."""
    return "" if element is None else attribute(element, "val")


def number(element: Element | None, default: int = 0) -> int:
    """Return the `val` of an element as a number of at most eight digits, else `default`."""
    digits = value(element)
    return int(digits) if digits.isdecimal() and len(digits) < 9 else default


def attribute(element: Element, name: str) -> str:
    """Return an attribute; '' if there is none."""
    return next((text for key, text in element.attrib.items() if key.rpartition("}")[2] == name), "")
