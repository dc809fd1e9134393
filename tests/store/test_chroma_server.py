"""The vectors on a Chroma server, which may be killed, come back, or lose everything."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import chromadb
import httpx
import pytest

from store.errors import VectorsUnavailable
from store.retrieval.vectors import VectorIndex
from tests.store.conftest import search
from tests.support.ports import free_port


class ChromaServer:
    def __init__(self, folder):
        self.folder, self.port = folder, free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self):
        command = [Path(sys.executable).with_name("chroma"), "run", "--host", "127.0.0.1", "--port", str(self.port)]
        self.process = subprocess.Popen([*command, "--path", self.folder], stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            try:
                return httpx.get(f"{self.url}/api/v2/heartbeat").raise_for_status()
            except httpx.HTTPError:
                time.sleep(0.05)
        raise TimeoutError

    def kill(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture(scope="module")
def chroma(tmp_path_factory):
    server = ChromaServer(tmp_path_factory.mktemp("chroma"))
    yield server
    server.kill()


def test_vectors_survive_there_and_a_lost_index_is_computed_again(open_library, file_of, chroma):
    library = open_library(chroma=chroma.url)
    *_, step = library.add(file_of("Herons nest in tall trees. Granite cools slowly."), "a.txt")
    found = search(library, "Where do herons nest?", 2)
    assert found[0].similarity
    library = open_library(chroma=chroma.url)
    assert search(library, "Where do herons nest?", 2) == found and library.documents_without_vectors() == []
    client = chromadb.HttpClient("127.0.0.1", chroma.port)
    for collection in client.list_collections():
        client.delete_collection(collection.name)
    library = open_library(chroma=chroma.url)
    assert library.documents_without_vectors() == [step.document]
    assert list(library.embed_missing()) and search(library, "Where do herons nest?", 2) == found


def test_a_server_that_loses_its_data_gets_it_again(open_library, file_of, chroma):
    library = open_library(chroma=chroma.url)
    list(library.add(file_of("Herons nest in tall trees. " * 9), "a.txt"))
    client = chromadb.HttpClient("127.0.0.1", chroma.port)
    for collection in client.list_collections():
        client.delete_collection(collection.name)
    list(library.add(file_of("Granite cools slowly.", "b.txt"), "b.txt"))
    found = search(library, "Where do herons nest?", 4)
    library = open_library(chroma=chroma.url)
    assert library.documents_without_vectors() == [] and search(library, "Where do herons nest?", 4) == found
    for collection in client.list_collections():
        client.delete_collection(collection.name)
    library.delete(library.documents()[0].id)
    assert len(library.documents()) == 1


def test_a_damaged_vector_there_is_computed_again(open_library, file_of, chroma):
    library = open_library(chroma=chroma.url)
    *_, step = library.add(file_of("Herons nest in tall trees."), "a.txt")
    index = library._vectors._collection
    rows = index.get(include=["embeddings"])
    index.update(ids=rows["ids"][:1], embeddings=[[2.0] * len(rows["embeddings"][0])])
    library = open_library(chroma=chroma.url)
    assert library.documents_without_vectors() == [step.document] and list(library.embed_missing())


def test_a_server_that_hangs_is_given_up(open_library, file_of, chroma, monkeypatch):
    monkeypatch.setattr("store.retrieval.vectors.SERVER_TIMEOUT_S", 0.3)
    library = open_library(chroma=chroma.url)
    chroma.process.send_signal(signal.SIGSTOP)
    try:
        with pytest.raises(VectorsUnavailable, match="timed out"):
            list(library.add(file_of("Herons nest in tall trees."), "a.txt"))
    finally:
        chroma.process.send_signal(signal.SIGCONT)
    assert library.documents() == []


def test_documents_that_were_deleted_while_the_vectors_were_elsewhere_are_not_lost(open_library, file_of, chroma):
    library = open_library()
    *_, birds = library.add(file_of("Herons nest in tall trees."), "a.txt")
    *_, rocks = library.add(file_of("Granite cools slowly.", "b.txt"), "b.txt")
    library = open_library(chroma=chroma.url)
    list(library.embed_missing())
    library.delete(birds.document.id)
    library = open_library()
    assert library.notice == "" and len(library._vectors) == 1
    library.delete(rocks.document.id)
    library = open_library(chroma=chroma.url)
    assert library.notice == "" and len(library._vectors) == 0


def test_libraries_do_not_touch_each_others_vectors(tmp_path, open_library, file_of, chroma):
    library = open_library(chroma=chroma.url, folder="one")
    list(library.add(file_of("Herons nest in tall trees."), "a.txt"))
    assert open_library(chroma=chroma.url, folder="two").documents() == []
    assert open_library(chroma=chroma.url, folder="one").documents_without_vectors() == []


def test_without_the_server_questions_are_answered_and_changes_are_refused(open_library, file_of, chroma):
    library = open_library(chroma=chroma.url)
    *_, step = library.add(file_of("Herons nest in tall trees."), "a.txt")
    found = search(library, "Where do herons nest?", 2)
    chroma.kill()
    assert search(library, "Where do herons nest?", 2) == found
    with pytest.raises(VectorsUnavailable, match="cannot save the vectors"):
        list(library.add(file_of("Granite cools slowly.", "b.txt"), "b.txt"))
    with pytest.raises(VectorsUnavailable, match="cannot open the vectors"):
        VectorIndex(file_of("").parent / "new" / "vectors", chroma.url)
    assert [each.id for each in library.documents()] == [step.document.id]
    chroma.start()
    assert [each.stage for each in library.add(file_of("Granite cools slowly.", "b.txt"), "b.txt")][-1] == "indexed"
    chroma.kill()
    library.delete(step.document.id)
    assert "Herons" not in str(search(library, "Where do herons nest?", 2))
    chroma.start()
    assert len(open_library(chroma=chroma.url).documents()) == 1
