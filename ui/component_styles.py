"""The styles of Gradio's components inside the page, which otherwise loads a file for each kind of component.

Gradio's build, made by Vite, lists the files of each kind in one of its modules. Vite does not load a file that the
page has a link to, even a disabled one. If a version of Gradio lists them otherwise, they are loaded as usual.
"""

import json
import re
from collections.abc import Iterable
from pathlib import Path

import gradio as gr

from ui.html import Markup, join, tag

_ASSETS = Path(gr.__file__).parent / "templates" / "frontend" / "assets"
_FILES = re.compile(r"\bm\.f=(\[[^\]]*\])")
_INDEXES = re.compile(r"__vite__mapDeps\(\[([\d,]+)\]\)")
_OUTSIDE = re.compile(r"url\(|@import|</")  # would not work inside the page


def component_styles(page: gr.Blocks) -> Markup:
    """Return elements for the head of the page: the styles of all its components, and disabled links to their files."""
    kinds = {block.get_block_name() for block in page.blocks.values()}
    styles = {name: (_ASSETS / name).read_text(encoding="utf-8") for name in _files(kinds)}
    styles = {name: text for name, text in styles.items() if not _OUTSIDE.search(text)}
    links = [tag("link", rel="stylesheet", href=f"./assets/{name}", disabled=True) for name in styles]
    return join(*links, tag("style", Markup("\n".join(styles.values()))))


def _files(kinds: Iterable[str]) -> list[str]:
    """Return the names of the files with styles of these kinds of components, each once, in Vite's order."""
    for module in _ASSETS.glob("core-*.js"):
        source = module.read_text(encoding="utf-8")
        if listed := _FILES.search(source):
            files = [Path(file).name for file in json.loads(listed[1])]
            entries = [re.search(rf"[{{,]{re.escape(kind)}:{{([^{{}}]*)}}", source) for kind in kinds]
            indexes = [_INDEXES.findall(entry[1]) for entry in entries if entry]
            used = {int(index) for lists in indexes for some in lists for index in some.split(",")}
            return [file for index, file in enumerate(files) if index in used and file.endswith(".css")]
    return []
