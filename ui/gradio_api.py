"""Endpoints for programs that use gradio_client: plain arguments in, JSON out, under stable names."""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import gradio as gr

from backend.interface.backend import Backend
from engine.analysis.comparison import CompareRequest
from engine.errors import BadRequest
from engine.method import default_method
from engine.request import ChatTurn, Request
from store.types import Document
from ui.cancellation import cancellable
from ui.events import INGEST_QUEUE, MODEL_QUEUE, coalesce
from ui.upload_files import in_use


def build(backend: Backend) -> None:
    """Register the endpoints ask, inspect, compare, list_methods and those for documents; call inside the Blocks."""

    def ask(
        question: str,
        method: str | None = None,
        ratio: float = 0.2,
        passages: int = 3,
        temperature: float = 0.0,
        max_new_tokens: int = 256,
        options: dict | None = None,
        documents: list[str] | None = None,
        earlier: list[dict] | None = None,
        whole: bool = False,
        draft: bool = False,
    ) -> Iterator[dict]:
        """Stream the growing answer with its metrics, sources and stages.

        `method` is a name from list_methods; None means the default method. `ratio` is the recompute ratio in [0, 1];
        `options` are the method's other parameters by name, see list_methods. `documents` are ids from list_documents
        to search; None searches all. `earlier` is the conversation so far, oldest turn first: {"question": ...,
        "answer": ..., "passages": [the `chunk` of each source of that answer, in order]}; it lets the engine
        understand follow-up questions and reuse their passages' KV. With `whole`, the model reads the one document in
        `documents` from beginning to end instead of retrieved passages. With `draft`, where recomputing takes a second
        or longer, the `draft` of the result is an answer by direct reuse, and its status says whether the answer
        equals it.
        """
        with cancellable() as cancel:
            request = Request(
                question,
                method or default_method(backend.methods()).name,
                ratio,
                passages,
                max_new_tokens,
                temperature,
                options={} if options is None else options,
                documents=_tuple(documents),
                history=_history(earlier),
                whole_document=whole,
                draft=draft,
            )
            for answer in coalesce(backend.ask(request, cancel), lambda answer: answer.state):
                yield answer.as_dict()

    def inspect(question: str, ratio: float = 0.2, passages: int = 3, documents: list[str] | None = None) -> dict:
        """Return both models' attention to the retrieved passages, and each method's agreement with the oracle.

        Attention is summed into at most 256 columns. KL (in nats) and Jaccard similarity at `ratio` are relative to
        the main model's last layer. Runs a full prefill. `documents` as in ask.
        """
        with cancellable() as cancel:
            request = Request(question, recompute_ratio=ratio, passages=passages, documents=_tuple(documents))
            *_, last = backend.inspect(request, cancel)
            if last.inspection is None:
                raise RuntimeError("The inspection ended without a result.")
            return last.inspection.as_dict()

    def compare(
        question: str,
        methods: list[str] | None = None,
        ratios: list[float] | None = None,
        passages: int = 3,
        repeats: int = 1,
        max_new_tokens: int = 96,
        documents: list[str] | None = None,
    ) -> Iterator[dict]:
        """Stream a growing comparison of each method at each ratio with full prefill, one outcome after the other.

        Times are in ms, KL in nats, sizes in bytes; `ratios` are in [0, 1]. Each method is timed `repeats` times.
        `documents` as in ask.
        """
        with cancellable() as cancel:
            defaults = CompareRequest(question)
            request = CompareRequest(
                question,
                defaults.methods if methods is None else _tuple(methods),
                defaults.ratios if ratios is None else _tuple(ratios),
                passages,
                repeats,
                max_new_tokens,
                _tuple(documents),
            )
            for comparison in backend.compare(request, cancel):
                yield comparison.as_dict()

    def list_methods() -> list[dict]:
        """Return the methods with their parameters: defaults, ranges and choices."""
        return [method.as_dict() for method in backend.methods()]

    def add_document(file: dict[str, Any] | None) -> list[dict]:
        """Add one uploaded file (`gradio_client.handle_file(path)`) and return the result for each file.

        If the call is cancelled, or takes longer than the limit for one document, nothing is added.
        """
        if not file:
            raise BadRequest("Give a file: handle_file(path).")
        path = Path(file["path"])
        with cancellable() as cancel, in_use([path]):
            *_, results = backend.ingest([(path, file.get("orig_name") or path.name)], cancel)
        return [asdict(result) for result in results]

    def list_documents() -> list[dict]:
        """Return the documents, newest first."""
        return [_document_json(document) for document in backend.documents()]

    def delete_document(document_id: str) -> dict:
        """Delete one document and everything computed from it."""
        backend.delete(document_id)
        return {"deleted": document_id}

    def rename_document(document_id: str, name: str) -> dict:
        """Rename a document and return it; its name may get a number to stay unique."""
        if not (isinstance(name, str) and name.strip()):
            raise BadRequest("Give the document's new name.")
        return _document_json(backend.library.rename(document_id, name))

    def reindex_document(document_id: str) -> list[dict]:
        """Re-chunk, embed and prefill a document with the current settings, and return the result."""
        with cancellable() as cancel:
            *_, results = backend.library.reindex([document_id], cancel)
        return [asdict(result) for result in results]

    gr.api(ask, **MODEL_QUEUE)
    gr.api(inspect, **MODEL_QUEUE)
    gr.api(compare, **MODEL_QUEUE)
    gr.api(list_methods, concurrency_limit=None)
    gr.api(list_documents, concurrency_limit=None)
    gr.api(delete_document)
    gr.api(rename_document)
    gr.api(reindex_document, **INGEST_QUEUE)
    # A File component, because Gradio checks that its value is an upload and not some other file of this machine.
    file = gr.File(visible=False)
    results = gr.JSON(visible=False)
    upload = gr.Button(visible=False).click
    upload(add_document, file, results, preprocess=False, api_name="add_document", **INGEST_QUEUE)


def _document_json(document: Document) -> dict[str, Any]:
    """Return a document under the stable keys of the endpoints."""
    values = asdict(document)
    values["pages"] = values.pop("num_pages")
    values["chunks"] = values.pop("num_chunks")
    return values


def _history(earlier: Any) -> tuple[ChatTurn, ...]:
    """Return a client's earlier turns; the engine validates their values. Raises BadRequest if the shape is wrong."""
    if earlier is not None and not isinstance(earlier, list):
        raise BadRequest(f"The earlier questions must be a list, got {earlier!r}.")
    for turn in earlier or ():
        if not isinstance(turn, dict) or not {"question", "answer"} <= set(turn) <= {"question", "answer", "passages"}:
            raise BadRequest("An earlier question has a question, an answer and its passages.")
    return tuple(ChatTurn(turn["question"], turn["answer"], _tuple(turn.get("passages"))) for turn in earlier or ())


def _tuple(value: Any) -> Any:
    """Return a list as a tuple and None as (); other values are left for the engine to reject."""
    if value is None:
        return ()
    return tuple(value) if isinstance(value, list) else value
