"""Files that are made to be slow: each is read within the time that the application gives a file, a small part of it.

Before, each of them took longer than that: its time grew with the square of its length.
"""

import pytest

from store.ingest.document import finish
from store.ingest.isolated import parse_isolated
from store.ingest.office import xlsx

SIZE = 300_000
FILES = {
    "blanks before the end of a line": ("a.html", "<html><p>Ferry<pre>a" + " " * SIZE + "x</pre>"),
    "blank lines in preformatted text": ("b.html", "<html><p>Ferry<pre>a" + " \n\n" * (SIZE // 3) + "x</pre>"),
    "nested main parts": ("c.html", "<html>" + "<main>" * (SIZE // 10) + "Ferry"),
    "weekdays and headings around the main part": (
        "f.html",
        "<html><main>Ferry</main><footer>" + "<div><h2>a</h2>Mo" * (SIZE // 100) + "<p>Tel. 1-9 mon</p>" * (SIZE // 10),
    ),
    "nested banners about cookies": ("g.html", "<html><h1>Ferry</h1>" + "<div class=cookie>" * (SIZE // 10) + "a"),
    "marks of a number without an end": ("d.html", "<html>Ferry" + "\ue000" * SIZE),
    "a row that almost delimits a table": ("e.md", "Ferry|boat\n---" + " " * SIZE + "x|-"),
}


@pytest.mark.parametrize("label", FILES)
def test_a_file_made_to_be_slow_is_read(label):
    name, content = FILES[label]
    assert "Ferry" in finish(parse_isolated(content.encode(), name)).text


def test_cells_and_merges_that_never_end_are_searched_once():
    """The square of their length would take longer than a file may."""
    assert not xlsx.MERGED.search(b"<mergeCell " * SIZE)
    assert not xlsx.UNCOMPUTED.search(b"<c " * SIZE)
    assert xlsx.MERGED.findall(b'<mergeCell a="1" ref="A1:B2"/><x:mergeCell\nref="C3:D4"/>') == [b"A1:B2", b"C3:D4"]
    assert xlsx.UNCOMPUTED.search(b'<c r="A1"><f>1+1</f></c>') and not xlsx.UNCOMPUTED.search(
        b'<c t="str"><f>1</f></c>'
    )
