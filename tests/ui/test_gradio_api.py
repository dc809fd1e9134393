"""The endpoints for gradio_client: stable names, plain JSON, and no access to other files of this machine."""

import itertools
from pathlib import Path
from threading import Semaphore
from time import sleep

import httpx
import pytest
from gradio.utils import get_upload_folder
from gradio_client import Client, handle_file

from engine.analysis.comparison import CompareRequest
from engine.request import ChatTurn, Request
from tests.support.fake_backend.backend import METHODS, FakeBackend
from tests.support.ports import free_port
from ui.layout import App, launch_options


@pytest.fixture(scope="module")
def backend():
    return FakeBackend(pace_s=0.002)


@pytest.fixture(scope="module")
def url(backend):
    page = App(backend).blocks
    _, url, _ = page.launch(
        server_name="127.0.0.1", server_port=free_port(), prevent_thread_lock=True, quiet=True, **launch_options()
    )
    yield url
    page.close()


@pytest.fixture(scope="module")
def client(url):
    return Client(url, verbose=False)


def test_a_document_is_added_listed_and_deleted(client, backend, tmp_path):
    (tmp_path / "notes.md").write_text("# Notes")
    (ended,) = client.predict(file=handle_file(tmp_path / "notes.md"), api_name="/add_document")
    assert (ended["name"], ended["stage"]) == ("notes.md", "done")
    (listed,) = client.predict(api_name="/list_documents")
    assert listed["name"] == "notes.md"
    client.predict(document_id=listed["id"], api_name="/delete_document")
    assert backend.documents() == []


def test_a_cancelled_call_adds_nothing_and_others_of_the_same_client_continue(
    url, client, backend, tmp_path, monkeypatch
):
    started, cancels, ingest = Semaphore(0), {}, backend.ingest

    def recorded(files, cancel):
        cancels[files[0][1]] = cancel
        started.release()
        yield from ingest(files, cancel)

    def add(name):
        (tmp_path / name).write_text(name)
        return client.submit(file=handle_file(tmp_path / name), api_name="/add_document")

    monkeypatch.setattr(backend, "ingest", recorded)
    monkeypatch.setattr(backend, "pause_at_stage", "embedded")
    jobs = {name: add(name) for name in ("a.txt", "b.txt", "c.txt")}
    assert all(started.acquire(timeout=30) for _ in jobs)
    jobs["a.txt"].cancel()
    # As gradio_client does if a job was cancelled before it was queued:
    httpx.post(f"{url}gradio_api/reset", json={"event_id": jobs["b.txt"].communicator.event_id})
    assert jobs["b.txt"].result(30)[0]["stage"] == "failed"
    assert [cancel.is_set() for _, cancel in sorted(cancels.items())] == [True, True, False]
    backend.pause_at_stage = ""
    assert jobs["c.txt"].result(30)[0]["stage"] == "done"
    (document,) = backend.documents()
    assert document.name == "c.txt" and {cancel.session for cancel in cancels.values()} == {client.session_hash}
    assert not [path for path in Path(get_upload_folder()).rglob("*.txt") if path.name in cancels]
    backend.delete(document.id)


def test_a_document_is_renamed_and_reindexed(client, backend, tmp_path):
    (tmp_path / "notes.md").write_text("# Other notes")
    client.predict(file=handle_file(tmp_path / "notes.md"), api_name="/add_document")
    (listed,) = client.predict(api_name="/list_documents")
    renamed = client.predict(document_id=listed["id"], name="log.md", api_name="/rename_document")
    assert renamed == {**listed, "name": "log.md"} == client.predict(api_name="/list_documents")[0]
    with pytest.raises(Exception, match="Give the document's new name"):
        client.predict(document_id=listed["id"], name=" ", api_name="/rename_document")
    (ended,) = client.predict(document_id=listed["id"], api_name="/reindex_document")
    assert (ended["name"], ended["stage"]) == ("log.md", "done") and backend.library.reindexed == [listed["id"]]
    for call in ({"name": "a.md", "api_name": "/rename_document"}, {"api_name": "/reindex_document"}):
        with pytest.raises(Exception, match="not in the library"):
            client.predict(document_id="nothing", **call)
    client.predict(document_id=listed["id"], api_name="/delete_document")


def test_an_answer_streams_and_ends_as_one_dictionary(client):
    job = client.submit(question="why?", method="full", ratio=0.5, api_name="/ask")
    assert job.result()["state"] == "done"
    assert job.result()["method"] == "full" and job.result()["ratio"] == 0.5
    assert len(job.outputs()) > 2


def test_a_conversation_streams_turn_by_turn(client, backend):
    earlier = []
    for question in ("What is the code?", "And the form?"):
        snapshots = list(client.submit(question, earlier=earlier, api_name="/ask"))
        texts = [snapshot["answer"] for snapshot in snapshots]
        assert texts[-1] == backend.answer and len(set(texts)) > 2
        assert all(later.startswith(shown) for shown, later in itertools.pairwise(texts))
        read = [source["chunk"] for source in snapshots[-1]["sources"]]
        earlier.append({"question": question, "answer": texts[-1], "passages": read})
    assert backend.requests[-1].history == (ChatTurn("What is the code?", backend.answer, tuple(read)),)


def test_a_cancelled_question_stops_and_another_one_of_the_client_is_answered(client, backend):
    backend.cancelled.clear()
    with backend.paused(after=2):
        jobs = [client.submit(question=question, api_name="/ask") for question in ("why?", "who?")]
        for answers in map(iter, jobs):
            while not next(answers)["answer"]:
                pass
        jobs[0].cancel()
        for _ in range(1000):
            if not backend.cancelled:
                sleep(0.01)
    assert jobs[1].result(30)["state"] == "done" and backend.cancelled == [True, False]


def test_the_methods_are_listed_with_their_parameters(client):
    listed = client.predict(api_name="/list_methods")
    assert [method["name"] for method in listed] == [method.name for method in METHODS]
    (tokens,) = next(method for method in listed if method["name"] == "epic")["settings"]
    assert (tokens["name"], tokens["default"], tokens["low"], tokens["high"]) == ("tokens", 32, 0, 512)


def test_options_reach_the_engine_and_invalid_ones_are_an_error_message(client, backend):
    ended = client.submit(question="why?", method="epic", options={"tokens": 16}, api_name="/ask").result()
    assert ended["options"] == {"tokens": 16} == backend.requests[-1].options
    assert client.submit(question="why?", api_name="/ask").result()["options"] == {}
    with pytest.raises(Exception, match="'tokens' is not an option of the method 'full'"):
        client.predict(question="why?", method="full", options={"tokens": 16}, api_name="/ask")
    with pytest.raises(Exception, match="tokens must be a whole number between 0 and 512"):
        client.predict(question="why?", method="epic", options={"tokens": 0.5}, api_name="/ask")


def test_a_follow_up_in_chosen_documents_reaches_the_engine(client, backend):
    earlier = [
        {"question": "Who?", "answer": "She. [1]", "passages": ["a-1", "a-0"]},
        {"question": "Why?", "answer": ""},
    ]
    arguments = {"documents": ["a", "b"], "earlier": earlier}
    ended = client.submit(question="And then?", api_name="/ask", **arguments).result()
    request = backend.requests[-1]
    assert request.documents == ("a", "b") and not request.whole_document
    assert request.history == (ChatTurn("Who?", "She. [1]", ("a-1", "a-0")), ChatTurn("Why?", ""))
    assert (ended["documents"], ended["earlier"], ended["max_tokens"]) == (["a", "b"], 2, 2048)
    client.submit(question="What?", documents=["a"], whole=True, api_name="/ask").result()
    assert backend.requests[-1] == Request("What?", documents=("a",), whole_document=True)


def test_a_comparison_searches_the_chosen_documents(client, backend):
    backend.comparison.pace_s = 0
    client.submit(question="why?", documents=["a", "b"], api_name="/compare").result()
    assert backend.comparison.requests[-1] == CompareRequest("why?", documents=("a", "b"))


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"documents": ["a", 5]}, "documents must be a list of their ids"),
        ({"documents": "a"}, "documents must be a list of their ids"),
        ({"earlier": {"question": "Who?"}}, "earlier questions must be a list"),
        ({"earlier": ["Who?"]}, "has a question, an answer and its passages"),
        ({"earlier": [{"question": "Who?"}]}, "has a question, an answer and its passages"),
        ({"earlier": [{"question": "Who?", "answer": "She.", "role": "user"}]}, "has a question, an answer"),
        ({"earlier": [{"question": "Who?", "answer": 5}]}, "An earlier turn must have a question"),
        ({"earlier": [{"question": "Who?", "answer": "She.", "passages": 5}]}, "An earlier turn must have a question"),
        ({"whole": True}, "exactly one; 0 are chosen"),
        ({"whole": 5, "documents": ["a"]}, "true or false"),
    ],
    ids=str,
)
def test_invalid_documents_or_history_are_an_error_message(client, arguments, message):
    with pytest.raises(Exception, match=message):
        client.predict(question="why?", api_name="/ask", **arguments)


def test_an_inspection_is_plain_data_and_a_refusal_an_error_message(client, backend):
    seen = client.predict(question="why?", ratio=0.3, passages=2, documents=["a"], api_name="/inspect")
    assert len(seen["passages"]) == len(backend.texts) and seen["kl_layers"][-1] == 0
    assert client.predict(question="why?", api_name="/inspect")["passages"] == seen["passages"]
    wanted = [
        Request("why?", recompute_ratio=0.3, passages=2, documents=("a",)),
        Request("why?", recompute_ratio=0.2, passages=3),
    ]
    assert backend.inspection.requests[-2:] == wanted
    with pytest.raises(Exception, match="recompute ratio must be between 0 and 1, got 7"):
        client.predict(question="why?", ratio=7, api_name="/inspect")


def test_an_invalid_ratio_is_an_error_message_without_a_traceback(client, capfd):
    with pytest.raises(Exception, match="recompute ratio must be between 0 and 1, got 7"):
        client.predict(question="why?", ratio=7, api_name="/ask")
    with pytest.raises(Exception, match="Give a file"):
        client.predict(file=None, api_name="/add_document")
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize("meta", [{}, {"meta": {"_type": "gradio.FileData"}}])
def test_a_path_of_this_machine_is_not_accepted_as_an_upload(url, backend, meta, tmp_path):
    secret = Path(tmp_path / "secret.txt")
    secret.write_text("secret")
    data = {"data": [{"path": str(secret), **meta}]}
    sent = httpx.post(f"{url}gradio_api/call/add_document", json=data, timeout=60)
    answer = httpx.get(f"{url}gradio_api/call/add_document/{sent.json()['event_id']}", timeout=60).text
    assert "event: error" in answer
    assert secret.exists() and backend.documents() == []
