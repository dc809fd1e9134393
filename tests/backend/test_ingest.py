"""Files on their way in, and what a question asked meanwhile is told."""

from dataclasses import replace
from threading import Event

from engine.request import Request
from tests.support.doubles import TEXTS, last

ASK = Request("When does the Old Kestrel sail?", max_new_tokens=2)


def test_an_answer_says_which_files_were_not_read_yet(start, tmp_path):
    backend = start()
    files = [tmp_path / f"{name}.txt" for name in TEXTS]
    for file, text in zip(files, TEXTS.values(), strict=True):
        file.write_text(text)

    def told(request=ASK):
        return " ".join(note for note in last(backend.ask(request, Event())).notes if note.startswith("Not searched"))

    assert told() == ""
    adding = backend.ingest([(file, file.name) for file in files], Event())
    states = next(adding)
    assert "ferry.txt, tern.txt, fares.txt and 1 more." in told()
    while states[0].stage != "prefilled":
        states = next(adding)
    assert files[0].name not in told() and files[1].name in told()  # searches find it; its KV is under way
    assert told(replace(ASK, documents=(backend.documents()[0].id,))) == ""  # others were not to be searched
    adding.close()
    assert told() == ""
