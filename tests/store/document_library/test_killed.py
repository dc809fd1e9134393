"""After SIGKILL at any moment of an addition, the library holds the whole document or no trace of it."""

import os

import pytest

from tests.store.document_library.test_library import BIRDS, NOTHING, ROCKS, add, count_rows
from tests.support.victim import kill_at_stage, kills

VICTIM = """
import sys
from pathlib import Path
from tests.store.conftest import SMALL
from tests.support.fakes import WordEmbedder, word_tokenizer
from store.document_library import DocumentLibrary

library = DocumentLibrary(Path(sys.argv[1]), word_tokenizer(), WordEmbedder(), SMALL)
print("open", flush=True)
for step in library.add(Path(sys.argv[2]), "birds.txt"):
    print(step.stage, flush=True)
"""


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL")
@pytest.mark.parametrize("seed, stage", kills("open", "chunked", "embedded"))
def test_a_killed_addition_leaves_the_document_or_nothing(open_library, file_of, tmp_path, seed, stage):
    path = file_of("\n\n".join(f"{BIRDS} number{number}" for number in range(20)), "birds.txt")
    kill_at_stage(VICTIM, tmp_path / "library", path, stage=stage, seed=seed)
    library = open_library()
    rows = count_rows(tmp_path)
    num_chunks = {document.name: document.num_chunks for document in library.documents()}
    add(library, file_of(ROCKS, "rocks.txt"))
    if not num_chunks:
        assert rows == NOTHING
        assert add(library, path)[-1].document.name == "birds.txt"
    else:
        assert rows["chunks"] == rows["words"] == num_chunks["birds.txt"]
        assert add(library, path)[-1].warning == "It is already in the library as birds.txt."
