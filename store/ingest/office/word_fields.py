"""Word's simple fields, equations and carriage returns as plain runs and line breaks, which mammoth keeps."""

from xml.etree.ElementTree import Element, SubElement

FIELD = "fldSimple"  # the number of a caption, a cross-reference, a name from mail merge
EQUATION = "oMath"
BETWEEN = {"sSup": "^", "sSub": "_", "f": "/"}  # written between the parts of a power, an index, a fraction
PARTS = {"e", "sup", "sub", "num", "den"}


def dissolve_fields(document: Element) -> None:
    """Put what simple fields contain in their place, and line breaks in that of carriage returns."""
    for parent in list(document.iter()):
        if _name(parent) == "cr":
            parent.tag = f"{parent.tag.removesuffix('cr')}br"
        while field := next((child for child in parent if _name(child) == FIELD), None):
            index = list(parent).index(field)
            parent[index : index + 1] = list(field)


def write_equations(document: Element) -> None:
    """Replace each equation by a run with its text, such as 'E=mc^2'."""
    for paragraph in [each for each in document.iter() if _name(each) == "p"]:
        namespace = paragraph.tag.removesuffix("p")
        for parent in list(paragraph.iter()):
            for index, child in enumerate(parent):
                if _name(child) == EQUATION:
                    run = Element(f"{namespace}r")
                    SubElement(run, f"{namespace}t").text = _text(child)
                    parent[index] = run


def _text(element: Element) -> str:
    if _name(element) == "t":
        return element.text or ""
    between = BETWEEN.get(_name(element), "")
    parts = [_text(child) for child in element if not between or _name(child) in PARTS]
    return between.join(f"({part})" if between and len(part) > 2 else part for part in parts)


def _name(element: Element) -> str:
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""
