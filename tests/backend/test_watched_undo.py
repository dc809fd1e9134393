"""A replaced document that is restored answers as before, with a whole backend."""

import os
import time
from threading import Event

from engine.request import Request
from server.watched import WatchedFolders
from tests.server.conftest import until
from tests.support.doubles import TEXTS, last


def test_the_restored_document_is_found_by_meaning_and_answers_as_before(start, tmp_path):
    backend = start()
    folder = tmp_path / "files"
    folder.mkdir()
    watched = WatchedFolders(backend, backend.loader.settings.data, [folder])

    def follow(text, age_s):
        (folder / "boats.txt").write_text(text)
        os.utime(folder / "boats.txt", (time.time() - age_s, time.time() - age_s))
        assert watched.scan()

    def answer():
        done = last(backend.ask(Request("Where do boats go?", "full", passages=2, max_new_tokens=6), Event()))
        return done.state, done.text, [(each.document, each.text, each.similarity) for each in done.sources]

    follow("\n\n".join(TEXTS.values()), 60)
    before, found = backend.documents(), answer()
    assert found[0] == "done" and found[2]
    follow("Granite cools slowly.", 30)
    assert answer() != found and [each.name for each in backend.documents()] == ["boats.txt"]
    (change,) = [each for each in watched.status()[0].changes if each.can_undo]
    watched.undo(change.id)
    assert backend.documents() == before
    until(lambda: backend.notices() == [])  # its vectors are complete again
    assert answer() == found
    watched.scan()
    assert backend.documents() == before
