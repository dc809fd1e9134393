"""The titles of a document's sections."""

from engine.prompt.titles import section_titles
from store.types import Chunk


def titles(text, size=30):
    starts = range(0, len(text), size // 2)
    return section_titles(
        Chunk(f"a-{n}", "a", "a.md", n, None, start, start + size, text[start : start + size])
        for n, start in enumerate(starts)
    )


def test_sections_are_those_of_the_highest_level_that_has_several():
    text = "# Rules\n\n## 1. Fees\n\nNone.\n\n### Late\n\n## 2. Dogs\n\nNone.\n\n## 3. Keys"
    assert titles(text, 400) == ("Fees", "Dogs", "Keys")
    assert titles("# Rules\n\n## Fees\n\n## Dogs", 400) == ()
    assert titles("\n\n".join(f"# Part {n}" for n in range(40)), 4000) == ()  # too many to be read
    assert titles("No headings.") == ()
    assert titles("# Acme\n\n## A\n\n# Acme\n\n## B\n\n# Acme\n\n## C", 400) == ("A", "B", "C")  # at the top of pages
    assert titles("# A\n\n# B\n\n```\n# install\n# run\n```", 400) == ()


def test_a_heading_that_two_chunks_have_counts_once():
    text = "# Fees\nNone at all.\n# Dogs\nNone.\n# Keys\nTwo for each.\n# Bins"
    assert titles(text, 60) == ("Fees", "Dogs", "Keys", "Bins")
