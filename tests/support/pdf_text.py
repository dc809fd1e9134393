"""PDF pages with drawn text, and what is read from them."""

from store.ingest import parse
from tests.support.files import drawn_pdf

BODY = "Tenants pay the rent in advance and in full\nunless another agreement has been made with\nthem in writing."
MORE = "Landlords return the deposit within a period\nof three months after they have got the keys\nof the flat back."


def text(x, y, lines, size=10, bold=False):
    """Draw lines from `y` points below the top of the page."""
    shown = " ".join(f"({line}) Tj T*" for line in lines.replace("(", r"\(").replace(")", r"\)").split("\n"))
    return f"BT /F{2 if bold else 1} {size} Tf {1.2 * size} TL 1 0 0 1 {x} {792 - y} Tm {shown} ET "


def read(*pages, **options):
    return parse(drawn_pdf(*pages, **options), "a.pdf").text


def joined(lines):
    return lines.replace("\n", " ")
