"""Hostile files that follow from a random generator: bombs, deep nesting, huge pages, wrong encodings.

They are built from the formats' definitions, because the libraries that write them refuse most of this.
"""

import random
from collections.abc import Callable

from bench.hostile.archives import (
    bomb,
    deep_xml,
    entities,
    epub,
    extreme_cells,
    false_size,
    many_members,
    overlapping,
    wrong_xml_encoding,
)
from bench.hostile.markup import (
    html_charset,
    html_nesting,
    html_table,
    html_unclosed,
    markdown_nesting,
    separated_values,
    whitespace,
)
from bench.hostile.pdf import (
    many_pages,
    page_tree,
    pdf_bomb,
    pdf_content,
    pdf_glyphs,
    pdf_nesting,
    pdf_pages,
    pdf_references,
)
from bench.hostile.pictures import huge_picture, picture_bomb, tiff_pages
from bench.hostile.texts import encoded, marks, noise

Hostile = Callable[[random.Random], tuple[str, bytes]]
KINDS: tuple[Hostile, ...] = (
    *(bomb, false_size, many_members, overlapping, entities, deep_xml, extreme_cells, wrong_xml_encoding),
    *(html_nesting, html_table, html_unclosed, html_charset, markdown_nesting, separated_values, whitespace),
    *(pdf_nesting, pdf_pages, pdf_bomb, pdf_content, pdf_glyphs, pdf_references, page_tree, many_pages),
    *(huge_picture, picture_bomb, tiff_pages, encoded, marks, noise),
)

__all__ = ["KINDS", "Hostile", "epub"]
