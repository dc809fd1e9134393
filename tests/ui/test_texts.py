"""All texts that the page shows before anything is done, in one reviewed file.

Other tests refer to elements, error classes and data, so that a text can be changed here alone. To accept a change:
`UPDATE_TEXTS=1 python -m pytest -n 0 tests/ui/test_texts.py`, then review the diff of texts.txt.
"""

import os
import re
from html import unescape
from pathlib import Path

TEXTS = Path(__file__).with_name("texts.txt")
TEXT_PROPS = ("label", "info", "placeholder", "value")
TAGS = re.compile(r"<(script|style).*?</\1>|<[^>]+>", re.DOTALL)
TOOLTIPS = re.compile(r'(?:title|aria-label|placeholder)="([^"]*)"')


def shown_texts(app):
    """Return the texts of all components, in the order in which they are laid out."""
    lines = []
    for component in app.blocks.config["components"]:
        for prop in TEXT_PROPS:
            text = component["props"].get(prop)
            if isinstance(text, str):
                texts = [*TOOLTIPS.findall(text), *TAGS.sub("\n", text).splitlines()]
                lines += [line.strip() for line in map(unescape, texts) if re.search(r"[^\W\d_]{2}", line)]
        lines += [choice[0] for choice in component["props"].get("choices") or [] if isinstance(choice[0], str)]
    return list(dict.fromkeys(lines))


def test_the_texts_of_the_page_are_the_reviewed_ones(app):
    texts = "\n".join(shown_texts(app)) + "\n"
    if os.environ.get("UPDATE_TEXTS"):
        TEXTS.write_text(texts, encoding="utf-8")
    assert texts == TEXTS.read_text(encoding="utf-8")
