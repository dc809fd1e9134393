"""Word's hidden text, which neither the screen nor a printout shows."""

from xml.etree.ElementTree import Element

from store.ingest.office.word_styles import Styles, value

KEPT = {"rPr", "fldChar", "instrText"}  # of a hidden run: the marks of a field's start and end belong together
SWITCHED_OFF = {"0", "false", "off"}


def remove_hidden(document: Element, styles: Styles) -> bool:
    """Remove the text of hidden runs; return whether there was any."""
    found = False
    for paragraph in document.iterfind(".//{*}p"):
        style = value(paragraph.find("{*}pPr/{*}pStyle"))
        for run in paragraph.iterfind(".//{*}r"):
            if _is_hidden(run, style, styles):
                parts = [child for child in run if child.tag.rpartition("}")[2] not in KEPT]
                found = found or bool("".join(text for part in parts for text in part.itertext()).strip())
                for part in parts:
                    run.remove(part)
    return found


def _is_hidden(run: Element, paragraph_style: str, styles: Styles) -> bool:
    """Return whether a run is hidden by itself, else by its style, else by that of its paragraph."""
    own = run.find("{*}rPr/{*}vanish")
    if own is None:
        own = styles.find(value(run.find("{*}rPr/{*}rStyle")), "{*}rPr/{*}vanish")
    if own is None:
        own = styles.find(paragraph_style, "{*}rPr/{*}vanish")
    return own is not None and value(own) not in SWITCHED_OFF
