"""What a program may call through gradio_client: plain arguments in, plain JSON out, under names that stay."""

from collections.abc import Iterator
from dataclasses import asdict, fields
from pathlib import Path
from threading import Event
from typing import Any

import gradio as gr

from backend.interface.backend import MAX_CONCURRENT_REQUESTS, Backend
from backend.interface.errors import user_message
from engine.analysis.comparison import CompareRequest
from engine.errors import BadRequest
from engine.method import default_method
from engine.request import ChatTurn, Request
from ui.events import LIBRARY, MODEL
from ui.throttle import coalesce


def build(backend: Backend) -> None:
    """Offer ask, inspect, compare, list_methods, and what there is to do with documents; call inside the Blocks."""

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
    ) -> Iterator[dict]:
        """Stream growing answers, each with its figures, sources and stages.

        `method` is one of list_methods, without any the usual one there. `ratio` lies in [0, 1]; `options` are the
        method's other settings by name, as list_methods gives them.
        `documents` are the ids of those to search, as list_documents gives them; without any, all. `earlier` is the
        conversation so far, the oldest first: {"question": ..., "answer": ..., "passages": [the `chunk` of each source
        of that answer, in order]}, so that a follow-up is understood and finds its passages ready. With `whole`, the
        one document in `documents` is read from its first passage to its last.
        """
        stop = Event()
        try:
            wanted = Request(
                question,
                method or default_method(backend.methods()).name,
                ratio,
                passages,
                max_new_tokens,
                temperature,
                options={} if options is None else options,
                documents=_tuple(documents),
                earlier=_conversation(earlier),
                whole=whole,
            )
            for answer in coalesce(backend.ask(wanted, stop), lambda answer: answer.state):
                yield answer.as_dict()
        except Exception as error:
            raise _refusal(error) from error
        finally:
            stop.set()

    def inspect(question: str, ratio: float = 0.2, passages: int = 3, documents: list[str] | None = None) -> dict:
        """Return what both models look at over the passages found, and how near each method comes to the oracle.

        Attention is added up into at most 256 columns; KL in nats and Jaccard at `ratio`, each against the primary's
        last layer. Costs a full prefill. `documents` as in ask.
        """
        stop = Event()
        try:
            wanted = Request(question, ratio=ratio, passages=passages, documents=_tuple(documents))
            *_, last = backend.inspection.inspect(wanted, stop)
            assert last.found is not None  # as its desk promises
            return last.found.as_dict()
        except Exception as error:
            raise _refusal(error) from error
        finally:
            stop.set()

    def compare(
        question: str,
        methods: list[str] | None = None,
        ratios: list[float] | None = None,
        passages: int = 3,
        repeats: int = 1,
        max_new_tokens: int = 96,
        documents: list[str] | None = None,
    ) -> Iterator[dict]:
        """Stream one growing comparison: each method at each ratio against full prefill, one outcome after the other.

        Times in ms, KL in nats, sizes in bytes; `ratios` lie in [0, 1]. Each method is timed `repeats` times.
        `documents` as in ask.
        """
        stop, standard = Event(), CompareRequest(question)
        try:
            chosen = standard.methods if methods is None else tuple(methods)
            spent = standard.ratios if ratios is None else tuple(ratios)
            wanted = CompareRequest(question, chosen, spent, passages, repeats, max_new_tokens, _tuple(documents))
            for comparison in backend.comparison.compare(wanted, stop):
                yield comparison.as_dict()
        except Exception as error:
            raise _refusal(error) from error
        finally:
            stop.set()

    def list_methods() -> list[dict]:
        """Return the methods, each with its settings: their defaults, ranges and choices."""
        return [method.as_dict() for method in backend.methods()]

    def add_document(file: dict[str, Any] | None) -> list[dict]:
        """Add one uploaded file (`gradio_client.handle_file(path)`); returns how each file ended."""
        if not file:
            raise gr.Error("Give a file: handle_file(path).", print_exception=False)
        stop, path = Event(), Path(file["path"])
        try:
            *_, ended = backend.ingest([(path, file.get("orig_name") or path.name)], stop)
        except Exception as error:
            raise _refusal(error) from error
        finally:
            stop.set()
            path.unlink(missing_ok=True)
        return [asdict(file) for file in ended]

    def list_documents() -> list[dict]:
        """Return the documents, newest first."""
        return [asdict(document) for document in backend.documents()]

    def delete_document(document_id: str) -> dict:
        """Delete one document and everything computed from it."""
        try:
            backend.delete(document_id)
        except Exception as error:
            raise _refusal(error) from error
        return {"deleted": document_id}

    def rename_document(document_id: str, name: str) -> dict:
        """Show a document under another name; returns it with the name it got."""
        try:
            return asdict(backend.library.rename(document_id, name))
        except Exception as error:
            raise _refusal(error) from error

    def reindex_document(document_id: str) -> list[dict]:
        """Cut, embed and prefill a document anew with the settings of today; returns how that ended."""
        stop = Event()
        try:
            *_, ended = backend.library.reindex([document_id], stop)
        except Exception as error:
            raise _refusal(error) from error
        finally:
            stop.set()
        return [asdict(file) for file in ended]

    gr.api(ask, api_name="ask", concurrency_id=MODEL, concurrency_limit=MAX_CONCURRENT_REQUESTS)
    gr.api(inspect, api_name="inspect", concurrency_id=MODEL, concurrency_limit=MAX_CONCURRENT_REQUESTS)
    gr.api(compare, api_name="compare", concurrency_id=MODEL, concurrency_limit=MAX_CONCURRENT_REQUESTS)
    gr.api(list_methods, api_name="list_methods", concurrency_limit=None)
    gr.api(list_documents, api_name="list_documents", concurrency_limit=None)
    gr.api(delete_document, api_name="delete_document")
    gr.api(rename_document, api_name="rename_document")
    gr.api(reindex_document, api_name="reindex_document", concurrency_id=LIBRARY, concurrency_limit=1)
    # A File component, because only its input is checked to be an upload and not any path of this machine.
    file, added = gr.File(visible=False), gr.JSON(visible=False)
    gr.Button(visible=False).click(
        add_document,
        file,
        added,
        preprocess=False,
        api_name="add_document",
        concurrency_id=LIBRARY,
        concurrency_limit=1,
    )


def _conversation(earlier: Any) -> tuple[ChatTurn, ...]:
    """Return a program's earlier questions; the engine checks what is in them. Raises BadRequest for another shape."""
    if earlier is not None and not isinstance(earlier, list):
        raise BadRequest(f"The earlier questions must be a list, got {earlier!r}.")
    known = {field.name for field in fields(ChatTurn)}
    for given in earlier or ():
        if not isinstance(given, dict) or not {"question", "answer"} <= set(given) <= known:
            raise BadRequest(f"An earlier question has a question, an answer and its passages, got {given!r}.")
    return tuple(ChatTurn(given["question"], given["answer"], _tuple(given.get("passages"))) for given in earlier or ())


def _tuple(value: Any) -> Any:
    """Return a list as a tuple, nothing as an empty one, and anything else as it is, for the engine to refuse."""
    return () if value is None else tuple(value) if isinstance(value, list) else value


def _refusal(error: Exception) -> gr.Error:
    """Return what the caller is told. The log keeps the traceback of a bug, and nothing of a caller's mistake."""
    return gr.Error(user_message(error), print_exception=False)
