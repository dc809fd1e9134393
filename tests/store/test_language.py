"""A text in a script that the search model hardly knows is taken with a warning, which stays with the document."""

import pytest

from store.language import language_warning
from tests.store.files import pdf
from tests.store.test_documents import BIRDS, add

RUSSIAN = (
    "\u0426\u0430\u043f\u043b\u044f \u0441\u0442\u043e\u0438\u0442 \u0432 \u043a\u0430\u043c\u044b\u0448\u0430\u0445. "
)
CHINESE = "\u82cd\u9e6d\u7ad9\u5728\u82a6\u82c7\u4e2d\u7b49\u5f85\u3002"
JAPANESE = "\u9dfa\u306f\u846d\u306e\u4e2d\u3067\u5f85\u3063\u3066\u3044\u307e\u3059\u3002"


@pytest.mark.parametrize("text, script", [(RUSSIAN, "Cyrillic"), (CHINESE, "Chinese"), (JAPANESE, "Japanese")])
def test_another_script_is_named(text, script):
    assert f"of the letters are {script}" in language_warning(text * 20)
    assert f"of the letters are {script}" in language_warning(text * 20_000)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1234 5678 " * 50,
        BIRDS,
        "\u00c0 bient\u00f4t, \u0141\u00f3d\u017a. " * 20,
        f"{BIRDS} The Russian for it: {RUSSIAN}",
        RUSSIAN[:20],
    ],
)
def test_latin_numbers_and_quotations_are_no_matter(text):
    assert language_warning(text) == ""


def test_only_samples_of_a_long_text_are_read_but_from_all_of_it():
    assert language_warning(BIRDS * 200 + RUSSIAN * 8000)


def test_warnings_stay_with_the_document(open_library, file_of):
    library = open_library()
    steps = add(library, file_of(RUSSIAN * 20, "a.txt"))
    assert "Cyrillic" in steps[0].warning and steps[-1].warning == steps[0].warning == steps[-1].document.warning
    assert "1 of 2 pages have no text" in add(library, file_of(pdf("alpha beta", ""), "b.pdf"))[-1].document.warning
    again = open_library()
    assert ["Cyrillic" in document.warning for document in again.documents()] == [False, True]
    list(again.reindex(steps[-1].document.id))
    assert again.documents()[1].warning == steps[-1].warning
