"""What the library server does beside answering: it completes what failed before."""

import time
from contextlib import closing
from threading import Event, Thread

from cluster import library_server
from cluster.library_server import SharedLibrary
from store.errors import VectorsUnavailable
from store.ingest import parse_steps
from tests.support.fakes import WordEmbedder, word_tokenizer
from tests.support.library_server import CHUNKING


def test_vectors_that_cannot_be_saved_at_the_start_are_saved_later(tmp_path, monkeypatch):
    monkeypatch.setattr("store.ingest.isolated.parse_isolated", parse_steps)
    monkeypatch.setattr(library_server, "CLEAN_S", 0.01)
    path = tmp_path / "birds.txt"
    path.write_text("Herons nest in tall trees.")
    with closing(SharedLibrary(tmp_path / "library", word_tokenizer(), WordEmbedder(), CHUNKING)) as library:
        *_, step = library.add(path, path.name)
        library._vectors.delete(step.document.id)
        save, is_down, ended = library._vectors.add, Event(), Event()

        def save_later(*arguments):
            if not is_down.is_set():
                is_down.set()
                raise VectorsUnavailable("Chroma does not answer.")
            save(*arguments)

        monkeypatch.setattr(library._vectors, "add", save_later)
        upkeep = Thread(target=library_server._keep_complete, args=[library, ended], daemon=True)
        upkeep.start()
        deadline = time.monotonic() + 20
        while library.documents_without_vectors() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert is_down.is_set() and library.documents_without_vectors() == []
        ended.set()
        upkeep.join(20)
        assert not upkeep.is_alive()
