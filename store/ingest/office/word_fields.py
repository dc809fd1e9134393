"""Word's simple fields, equations and carriage returns as plain runs and line breaks, which mammoth keeps."""

from xml.etree.ElementTree import Element, SubElement

FIELD = "fldSimple"  # the number of a caption, a cross-reference, a name from mail merge
EQUATIONS = {"oMath", "oMathPara"}
BETWEEN = {"sSup": "^", "sSub": "_", "f": "/"}  # written between the parts of a power, an index, a fraction
PARTS = {"e", "sup", "sub", "num", "den"}


def dissolve_fields(document: Element) -> None:
    """Put what simple fields contain in their place, and line breaks in that of carriage returns."""
    for parent in list(document.iter()):
        if _name(parent) == "cr":
            parent.tag = f"{parent.tag.removesuffix('cr')}br"
        children = list(parent)
        while any(_name(child) == FIELD for child in children):
            children = [part for child in children for part in (child if _name(child) == FIELD else [child])]
            parent[:] = children


def write_equations(document: Element) -> None:
    """Replace each equation by a run with its text, such as 'E=mc^2'."""
    namespace = document.tag.partition("}")[0] + "}"
    for parent in list(document.iter()):
        for index, child in enumerate(parent):
            if _name(child) in EQUATIONS:
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
