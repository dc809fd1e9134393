"""One user of the application: asks about a small document, stops some answers, replaces the document by another."""

import random
from pathlib import Path
from threading import Event

import httpx
from gradio_client import Client, handle_file

from bench.harness.streamed import STREAM_TIMEOUT_S, AnswerFailed, ask_gradio, ask_http
from bench.soak.findings import Findings

RETRY_S = 5.0  # after an error
VISIT_ACTIONS = 20  # until a session closes its clients and opens others
REPLACE, STOP = 0.02, 0.25  # probabilities that the document is replaced, and that an answer is stopped
MAX_STOP_CHARS = 60  # an answer is stopped once it has 0 to so many characters
QUESTIONS = [
    "What is the code of the harbour office?",
    "Who counted the crates at the mill?",
    "Describe what happened at the quarry in your own words.",
    "Why does the report mention the lighthouse?",
    "Summarize the report.",
]
METHODS = ["cacheclip", "cacheblend", "epic", "full", None]  # None: the default one
PLACES = "mill quarry chapel orchard bridge depot lighthouse market station archive granary".split()
PEOPLE = "Adams Brandt Castro Dahl Eriksen Farah Grieg Hansen Ito Jansen Kowalski Lund Meyer".split()
DEEDS = "counted repaired moved painted sold inspected borrowed measured replaced registered".split()
THINGS = "crates lanterns cables barrels timbers compasses rudders tickets signals pumps".split()


class Session:
    """Visits the app with clients of its own until `ended` is set; its document stays between two visits.

    Files are written to `folder` before they are uploaded.
    """

    def __init__(self, url: str, folder: Path, findings: Findings, ended: Event, rng: random.Random) -> None:
        self._url = url
        self._folder = folder
        self._findings = findings
        self._ended = ended
        self._rng = rng
        self._documents: dict[str, str] = {}  # id by code

    def run(self) -> None:
        while not self._ended.is_set():
            try:
                self._visit()
            except Exception as error:  # noqa: BLE001  counted
                self._failed(error)

    def _visit(self) -> None:
        page = Client(self._url, verbose=False, httpx_kwargs={"timeout": STREAM_TIMEOUT_S})
        try:
            with httpx.Client(base_url=self._url, timeout=STREAM_TIMEOUT_S) as http:
                for _ in range(VISIT_ACTIONS):
                    if self._ended.is_set():
                        break
                    try:
                        self._act(page, http)
                    except Exception as error:  # noqa: BLE001  counted
                        self._failed(error)
        finally:
            page.close()

    def _failed(self, error: Exception) -> None:
        is_message = isinstance(error, AnswerFailed) or type(error).__module__.startswith("gradio_client")
        self._findings.add_error(str(error) if is_message else repr(error))
        self._ended.wait(RETRY_S * self._rng.uniform(1, 2))

    def _act(self, page: Client, http: httpx.Client) -> None:
        if self._documents and self._rng.random() > REPLACE:
            self._ask(page, http)
            return
        former = dict(self._documents)
        self._upload(page)
        for code, document_id in former.items():
            del self._documents[code]
            page.submit(document_id, api_name="/delete_document").result(STREAM_TIMEOUT_S)
            self._findings.count("deletions")

    def _upload(self, page: Client) -> None:
        code = f"{self._rng.randrange(10**8, 10**9)}"
        self._findings.add_code(code)
        path = self._folder / f"{code}.txt"
        path.write_text(make_report(code, self._rng))
        try:
            results = page.submit(handle_file(path), api_name="/add_document").result(STREAM_TIMEOUT_S)
        finally:
            path.unlink()
        if results[0]["stage"] != "done":
            raise AnswerFailed(results[0]["message"])
        documents = page.submit(api_name="/list_documents").result(STREAM_TIMEOUT_S)
        self._documents[code] = next(document["id"] for document in documents if document["name"] == path.name)
        self._findings.count("uploads")

    def _ask(self, page: Client, http: httpx.Client) -> None:
        code, document_id = self._rng.choice(sorted(self._documents.items()))
        question, method = self._rng.choice(QUESTIONS), self._rng.choice(METHODS)
        stop_after = self._rng.randrange(MAX_STOP_CHARS) if self._rng.random() < STOP else None
        if self._rng.random() < 0.5:
            answer = ask_http(http, question, method, [document_id], stop_after)
        else:
            answer = ask_gradio(page, question, method, [document_id], stop_after)
        self._findings.add_answer(answer, f"{code}.txt", code)


def make_report(code: str, rng: random.Random) -> str:
    """Return a text of random sentences, one of which has the code."""
    sentences = [
        f"{rng.choice(PEOPLE)} {rng.choice(DEEDS)} the {rng.choice(THINGS)} at the {rng.choice(PLACES)}."
        for _ in range(rng.randrange(8, 60))
    ]
    sentences.insert(rng.randrange(len(sentences)), f"The code of the harbour office is {code}.")
    return " ".join(sentences)
