"""What mammoth would lose, in a form that it keeps: fields, right-to-left parts, equations, ruby text, text boxes."""

from xml.etree.ElementTree import Element, SubElement

WRAPPERS = {
    "fldSimple",  # the number of a caption, a cross-reference, a name from mail merge
    *("bdo", "dir"),  # text in another direction
}
EQUATIONS = {"oMath", "oMathPara"}
BETWEEN = {"sSup": "^", "sSub": "_", "f": "/"}  # written between the parts of a power, an index, a fraction
PARTS = {"e", "sup", "sub", "num", "den"}
ALTERNATIVES = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"


def dissolve_fields(document: Element) -> None:
    """Put what simple fields and parts in another direction contain in their place, and breaks for carriage returns."""
    for parent in list(document.iter()):
        if _name(parent) == "cr":
            parent.tag = f"{parent.tag.removesuffix('cr')}br"
        children = list(parent)
        while any(_name(child) in WRAPPERS for child in children):
            children = [part for child in children for part in (child if _name(child) in WRAPPERS else [child])]
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


def keep_ruby_bases(document: Element) -> None:
    """Replace words with their pronunciation above them by the words."""
    for ruby in [element for element in document.iter() if _name(element) == "ruby"]:
        text, tag = "".join(map(_text, ruby.iterfind("{*}rubyBase"))), f"{ruby.tag.removesuffix('ruby')}t"
        ruby.clear()
        ruby.tag, ruby.text = tag, text


def keep_text_boxes(document: Element) -> None:
    """Turn drawings with text into the older form, unless they have that already as an alternative with the text."""
    for alternatives in list(document.iter(f"{ALTERNATIVES}AlternateContent")):
        choice, fallback = (alternatives.find(f"{ALTERNATIVES}{name}") for name in ("Choice", "Fallback"))
        if choice is not None and (fallback is None or fallback.find(".//{*}t") is None):
            choice.tag = f"{ALTERNATIVES}Fallback"  # the one that mammoth reads
            alternatives[:] = [choice]
    for drawing in [element for element in document.iter() if _name(element) == "drawing"]:
        boxes, inside = list[Element](), set[Element]()
        for box in drawing.iterfind(".//{*}txbxContent"):
            if box not in inside:
                boxes.append(box)
                inside.update(box.iter())
        if boxes:
            drawing.tag = f"{drawing.tag.removesuffix('drawing')}pict"
            drawing[:] = boxes


def _text(element: Element) -> str:
    if _name(element) == "t":
        return element.text or ""
    between = BETWEEN.get(_name(element), "")
    parts = [_text(child) for child in element if not between or _name(child) in PARTS]
    return between.join(f"({part})" if between and len(part) > 2 else part for part in parts)


def _name(element: Element) -> str:
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""
