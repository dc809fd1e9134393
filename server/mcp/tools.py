"""The tools: search, answers and documents, on any backend.

The error of a tool is a result with `isError` and a sentence, which the calling model reads.
"""

import base64
import binascii
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from inspect import getdoc
from pathlib import Path
from typing import Any, TypeVar, cast, get_type_hints

import anyio
import anyio.to_thread
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from backend.interface.backend import Backend
from backend.interface.limits import MAX_QUESTIONS
from backend.interface.session import SessionEvent
from engine.errors import BadRequest
from engine.method import default_method, server_note
from engine.request import Answer, Request
from server.chat import check_finished, default_ratio
from server.client import current_client
from server.errors import TooManyQuestions, to_api_error
from server.limits import UploadLimits
from server.mcp import schema
from store.errors import KVScopeError
from store.types import COLLECTION, Document

MAX_FILES = 16  # that are added at a time
POLL_S = 0.2  # at which progress is looked for and reported
_INSTRUCTIONS = (
    "The user's own documents. search finds passages to read; ask gives a short answer by a model, "
    "whose citations have quotes to check it by. list_documents has the names of the documents."
)
_UNKNOWN = "There is no document or collection {!r}. list_documents has their names."
_ONE_CONTENT = "Give either the text of the document or its content in base64."
Step = TypeVar("Step")


@dataclass
class Call:
    """A running call of a tool: its progress, and the event that cancels it."""

    cancel: SessionEvent = field(default_factory=lambda: SessionEvent(current_client()))
    steps: int = 0
    message: str = ""

    def follow(self, steps: Iterator[Step], describe: Callable[[Step], str]) -> Step:
        """Run all steps, each of which is progress, and return the last."""
        with closing(cast(Any, steps)):
            for step in steps:
                self.message, self.steps = describe(step), self.steps + 1
        return step

    async def watch(self, report: Callable[[float, None, str], Any]) -> None:
        """Report progress until the task ends, be it that the call has ended or that the client has cancelled it."""
        reported = 0
        try:
            while True:
                await anyio.sleep(POLL_S)
                if self.steps > reported:
                    reported = self.steps
                    await report(reported, None, self.message)
        finally:
            self.cancel.set()


@dataclass(frozen=True)
class _Tool:
    """A tool, run by a function whose docstring and types describe it."""

    run: Callable[[Any, Call], Any]
    annotations: types.ToolAnnotations
    slots: anyio.CapacityLimiter | None = None  # for calls at a time
    busy: str = ""  # says that there is no slot

    def describe(self, name: str) -> types.Tool:
        hints = get_type_hints(self.run)
        return types.Tool(
            name=name,
            description=getdoc(self.run),
            input_schema=hints["arguments"].model_json_schema(),
            output_schema=hints["return"].model_json_schema(mode="serialization"),
            annotations=self.annotations,
        )

    def result(self, arguments: dict[str, Any], call: Call) -> types.CallToolResult:
        try:
            result = self.run(get_type_hints(self.run)["arguments"].model_validate(arguments), call)
        except ValidationError as error:
            first = error.errors()[0]
            return _failure(f"{'.'.join(map(str, first['loc']))}: {first['msg']}.")
        except Exception as error:  # noqa: BLE001  sent to the client
            return _failure(to_api_error(error).message)
        text = types.TextContent(type="text", text=result.model_dump_json())
        return types.CallToolResult(content=[text], structured_content=result.model_dump(mode="json"))


class Tools:
    """The tools on one backend.

    max_questions  searches and answers at a time
    uploads        the limits on what each client may add, or None
    """

    def __init__(
        self, backend: Backend, max_questions: int = MAX_QUESTIONS, uploads: UploadLimits | None = None
    ) -> None:
        self._backend = backend
        self._uploads = uploads
        reads = types.ToolAnnotations(read_only_hint=True, open_world_hint=False)
        adds = types.ToolAnnotations(destructive_hint=False, idempotent_hint=True, open_world_hint=False)
        questions, files = anyio.CapacityLimiter(max_questions), anyio.CapacityLimiter(MAX_FILES)
        many_questions = f"{max_questions} questions are already running, which is the limit (--max-questions)."
        many_files = f"{MAX_FILES} documents are already being added, which is the limit."
        self._tools = {
            "search": _Tool(self.search, reads, questions, many_questions),
            "ask": _Tool(self.ask, reads, questions, many_questions),
            "list_documents": _Tool(self.list_documents, reads),
            "add_document": _Tool(self.add_document, adds, files, many_files),
        }

    def server(self) -> Server[Any]:
        """Return the server of these tools, for any transport."""
        handlers: dict[str, Any] = {"on_list_tools": self._list_tools, "on_call_tool": self._call_tool}
        return Server("kvscope", title="KVScope", instructions=_INSTRUCTIONS, **handlers)

    def search(self, arguments: schema.SearchArguments, call: Call) -> schema.SearchResult:
        """Search the documents by meaning and by words; return the best passages, without an answer."""
        documents = self._ids(arguments.documents)
        hits = self._backend.search(Request(arguments.query, passages=arguments.passages, documents=documents))
        return schema.SearchResult(
            passages=[
                schema.Passage(
                    text=hit.chunk.passage,
                    document=hit.chunk.document_name,
                    document_id=hit.chunk.document_id,
                    page=hit.chunk.page,
                    score=hit.score,
                    similarity=hit.similarity,
                )
                for hit in hits
            ]
        )

    def ask(self, arguments: schema.AskArguments, call: Call) -> schema.AskResult:
        """Answer a question from the documents with citations and their quotes."""
        methods = self._backend.methods()
        method = next((each for each in methods if each.name == arguments.method), default_method(methods))
        request = Request(
            arguments.question,
            arguments.method or method.name,
            default_ratio(method) if arguments.recompute_ratio is None else arguments.recompute_ratio,
            arguments.passages,
            arguments.max_tokens,
            documents=self._ids(arguments.documents),
        )
        answer = call.follow(self._backend.ask(request, call.cancel), lambda answer: answer.state)
        check_finished(answer)
        return schema.AskResult(
            answer=answer.text,
            citations=citations(answer),
            confidence=answer.confidence,
            alternatives=alternatives(answer),
            method=request.method,
            recompute_ratio=answer.actual_ratio,
            ttft_ms=answer.trace.ttft_ms,
            notes=list(answer.notes),
        )

    def list_documents(self, arguments: schema.ListArguments, call: Call) -> schema.ListResult:
        """List the documents that can be searched."""
        return schema.ListResult(documents=list(map(_document, self._backend.documents())))

    def add_document(self, arguments: schema.AddArguments, call: Call) -> schema.AddResult:
        """Add a document to the library: a text, or the bytes of a file in base64."""
        data = _content(arguments)
        if self._uploads:
            self._uploads.check(current_client(), len(data))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "document"
            path.write_bytes(data)
            steps = self._backend.ingest([(path, arguments.name)], call.cancel)
            (state,) = call.follow(steps, lambda states: f"{states[0].stage} {states[0].done} of {states[0].total}")
        document = next((each for each in self._backend.documents() if each.id == state.document_id), None)
        if document is None:
            raise KVScopeError(state.message or "The document was deleted in the meantime.")
        return schema.AddResult(document=_document(document), message=state.message)

    def _ids(self, documents: list[str]) -> tuple[str, ...]:
        """Return the scope of documents given by names, ids or collections. Raises BadRequest for an unknown one."""
        keys: dict[str, str] = {}
        for each in self._backend.documents() if documents else ():
            keys |= {name: COLLECTION + name for name in each.collections if name not in keys}
            keys |= {each.name: each.id, each.id: each.id}
        if missing := [each for each in documents if each not in keys]:
            raise BadRequest(_UNKNOWN.format(missing[0]))
        return tuple(keys[each] for each in documents)

    async def _list_tools(self, context: Any, params: Any) -> types.ListToolsResult:
        tools = self._tools
        if server_note(self._backend.methods()):  # passages are sent to another server
            annotations = tools["ask"].annotations.model_copy(update={"open_world_hint": True})
            tools = tools | {"ask": replace(tools["ask"], annotations=annotations)}
        return types.ListToolsResult(tools=[tool.describe(name) for name, tool in tools.items()])

    async def _call_tool(
        self, context: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        """Run a tool in a thread; if the client cancels, wait for its end, which is near."""
        if (tool := self._tools.get(params.name)) is None:
            raise MCPError(types.INVALID_PARAMS, f"There is no tool {params.name!r}.")
        if tool.slots and tool.slots.available_tokens < 1:
            return _failure(str(TooManyQuestions(tool.busy)))
        call = Call()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call.watch, context.session.report_progress)
            result = await anyio.to_thread.run_sync(tool.result, params.arguments or {}, call, limiter=tool.slots)
            tasks.cancel_scope.cancel()
        return result


def citations(answer: Answer) -> list[schema.Citation]:
    """Return the passages that an answer cites or that a quote is from."""
    quotes = {
        source.rank: [each.text for each in answer.quotes if each.rank == source.rank] for source in answer.sources
    }
    return [
        schema.Citation(
            number=source.rank,
            document=source.document,
            document_id=source.document_id,
            page=source.page,
            similarity=source.similarity,
            is_marked=source.cited,
            quotes=quotes[source.rank],
        )
        for source in answer.sources
        if source.cited or quotes[source.rank]
    ]


def alternatives(answer: Answer) -> list[schema.Alternative]:
    """Return what else may answer, with its source."""
    return [
        schema.Alternative(
            number=each.rank, document=each.document, page=answer.sources[each.rank - 1].page, quote=each.text
        )
        for each in answer.alternatives
    ]


def _document(document: Document) -> schema.DocumentInfo:
    return schema.DocumentInfo(
        id=document.id,
        name=document.name,
        pages=document.num_pages,
        passages=document.num_chunks,
        size_bytes=document.size_bytes,
        warning=document.warning,
        language=document.language,
        collections=list(document.collections),
    )


def _content(arguments: schema.AddArguments) -> bytes:
    """Return the bytes of a document to add. Raises BadRequest."""
    if arguments.text is not None and arguments.content is None:
        return arguments.text.encode("utf-8", "replace")
    if arguments.content is None or arguments.text is not None:
        raise BadRequest(_ONE_CONTENT)
    try:
        return base64.b64decode("".join(arguments.content.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadRequest(f"The content is not base64 ({error}).") from error


def _failure(message: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=message)], is_error=True)
