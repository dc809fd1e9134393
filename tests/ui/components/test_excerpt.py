"""The excerpt panel: the sentence that supports the answer, and its page."""

import re
from dataclasses import replace
from html import unescape
from urllib.parse import parse_qsl

import pytest

from store.types import Chunk, Excerpt
from ui.components.excerpt import find_quote, page_label, render_excerpt, render_page

TEXT = "The tower stands on a rock. It has 199 steps. <b>The keeper</b> is Ada Pell."
CHUNK = Chunk("a-0", "a", "a.pdf", 0, 1, 0, len(TEXT), TEXT)
EXCERPT = Excerpt(CHUNK, f"{TEXT} And more.", 0, len(TEXT), False, True, ((0, 1), (28, 2), (46, 3)))


@pytest.mark.parametrize(
    "answer, label",
    [
        ("", "Pages 1\u20133"),
        ("It has 199 steps.", "Page 2"),
        ("Ada Pell", "Page 3"),
        ("Nothing similar", "Pages 1\u20133"),
    ],
)
def test_the_page_is_that_of_the_sentence_that_supports_the_answer(answer, label):
    assert page_label(EXCERPT, find_quote(EXCERPT, answer)) == label


def test_the_sentence_that_supports_the_answer_is_highlighted_and_escaped():
    shown = render_excerpt(EXCERPT, find_quote(EXCERPT, "Who else? Ada Pell"))
    assert '<em class="kv-quoted">&lt;b&gt;The keeper&lt;/b&gt; is Ada Pell.</em>' in shown
    assert "<em" not in render_excerpt(EXCERPT) and "<b>" not in shown


def test_without_pages_the_passage_has_a_number():
    bare = replace(EXCERPT, chunk=replace(CHUNK, page=None), pages=())
    assert page_label(bare, find_quote(bare, "199 steps")) == "Passage 1"


def test_a_page_is_an_image_whose_address_has_the_quote_as_data():
    chunk = replace(EXCERPT.chunk, text='"><script>alert(1)</script> & more', page=3)
    excerpt = Excerpt(chunk, chunk.text, 0, len(chunk.text), False, False)
    page = render_page(excerpt, (2, 27))
    assert "<script" not in page and page.count("<img") == 1
    (address,) = re.findall('src="([^"]*)"', page)
    query = dict(parse_qsl(unescape(address).partition("?")[2]))
    assert query == {"chunk": chunk.id, "page": "3", "quote": chunk.text[2:27]}
