"""A fake backend for UI tests: streams canned answers, slowly enough to be stopped."""

import hashlib
import io
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from typing import IO

from PIL import Image, ImageDraw

from backend.interface.backend import Status, TierUsage
from backend.interface.library import IngestProgress
from backend.services.metrics import Metrics
from engine.analysis.comparison import CompareRequest, Comparison
from engine.analysis.inspection import InspectionStep
from engine.errors import ModelNotReady
from engine.method import MethodInfo, MethodParam, server_note
from engine.prompt.validate import validate
from engine.request import Answer, ContextBudget, MarkedPassage, RatioPreview, Request, Source, TextSpan
from engine.trace import Stage, Trace
from store.errors import NoSuchDocument
from store.feedback import Feedback
from store.types import PARSER_VERSION, Chunk, Document, Hit
from tests.support.fake_backend.cache import FakeCache
from tests.support.fake_backend.comparison import FakeComparison
from tests.support.fake_backend.inspection import FakeInspection
from tests.support.fake_backend.library import FakeLibrary
from tests.support.fake_backend.models import FakeModels

READY = Status(ready=True, message="SmolLM2-135M-Instruct, bf16 on the CPU (AVX-512 BF16)")
STAGES = [
    Stage("search", 0.4, 17.2),
    Stage("lookup", 17.9, 1.3),
    Stage("load", 19.4, 61.0),
    Stage("score", 20.1, 148.0),
    Stage("assemble", 80.9, 22.5),
    Stage("select", 168.6, 2.4),
    Stage("recompute", 171.2, 214.6),
    Stage("decode", 391.0, 1800.0),
]
RATIO = MethodParam("ratio", "Recompute ratio", 0.2, "Share of the passages' tokens that get fresh keys and values.")
TOKENS = MethodParam("tokens", "Tokens at each start", 32, "First tokens of a passage.", 0, 512, 1)
METHODS = [
    MethodInfo(
        "cacheclip", "CacheClip", "Recomputes the windows a small model attends to, up to the budget.", (RATIO,)
    ),
    MethodInfo(
        "cacheblend",
        "CacheBlend",
        "Recomputes the tokens whose keys or values changed most in an early layer.",
        (
            RATIO,
            MethodParam("deviation", "Deviation of", "values", "What is compared.", choices=("values", "keys")),
            MethodParam("check_layer", "Check layer", 1, "Where cached and fresh are compared.", 1, 8, 1),
            MethodParam("gradual", "Gradual filtering", False, "Start with more tokens and drop some at every layer."),
        ),
    ),
    MethodInfo("epic", "EPIC", "Recomputes the first tokens of every passage but the first.", (TOKENS,)),
    MethodInfo(
        "ape",
        "APE",
        "Recomputes nothing: attention to the passages is sharpened.",
        (MethodParam("temperature", "APE temperature", 0.9, "Below 1 sharpens.", 0.1, 1.5, 0.05),),
    ),
    MethodInfo("direct", "Direct reuse", "Recomputes nothing: cached passages, moved to their places.", ()),
    MethodInfo("full", "Full prefill", "Reuses nothing: every token is computed. Best answer, longest wait.", ()),
]
EMPTY_FILE = "The file is empty. Choose one that contains text."
POLL_S = 0.01  # how often paused work checks whether it may continue
TEXT = (
    "The maintenance code of the Morning Gannet is 5730264. It is printed on the brass plate beside the engine room "
    "door and repeated on page one of the log. Staff who swap a shift hand form HL-118 to the duty officer before "
    "noon of the day before. The Gannet sails from the north pier in winter, and from the stone quay once the "
    "spring tides are over; her crew is four in summer and three in winter, the engineer included."
)


class FakeBackend:
    """Keeps documents in a list and answers every question with `answer`, one word every `pace_s` seconds.

    max_kl               expected of answers that recompute nothing, in nats; None: not calibrated
    draft                what it drafts for requests that allow it; empty: no draft
    requests, cancelled  the requests so far, and whether each was cancelled
    pause_after_words    an answer pauses after this many words, until the number grows or the request is cancelled
    pause_at_stage       files being added pause at this stage, until it changes or they are cancelled
    stored_documents     newest first
    """

    def __init__(self, pace_s: float = 0.005, documents: list[Document] | None = None) -> None:
        self.models = FakeModels()
        self.reset(pace_s, documents)

    def reset(self, pace_s: float = 0.005, documents: list[Document] | None = None) -> None:
        """Return to the initial state; `models` stays the same object, because the Settings page keeps it."""
        self.pace_s = pace_s
        self.pause_after_words = 10_000
        self.pause_at_stage = ""
        self.answer = "The code is 5730264 [1]. Shifts are swapped with form HL-118 [2], handed in before noon."
        self.max_kl: float | None = None
        self.draft = ""
        self.texts = [TEXT, TEXT[150:] + " " + TEXT[:150], TEXT[60:]]
        self.error: Exception | None = None
        self.state = READY
        self.requests: list[Request] = []
        self.cancelled: list[bool] = []
        self.stored_documents = documents or []
        self.shown_notices: list[str] = []
        self.cleared = False
        self.has_original = True  # of documents with pages
        self.cache = FakeCache()
        self._folder = TemporaryDirectory()
        self.feedback = Feedback(Path(self._folder.name))
        self.library = FakeLibrary(self)
        self.models.reset(pace_s)
        self.inspection = FakeInspection(self)
        self.metrics = Metrics(self.tier_usage)
        self.comparison = FakeComparison()

    @contextmanager
    def paused(self, after: int = 0) -> Iterator[None]:
        """Pause answers after so many words while the block runs, to look at them on any machine."""
        before = self.pause_after_words
        self.pause_after_words = after
        try:
            yield
        finally:
            self.pause_after_words = before

    def status(self) -> Status:
        return self.state

    def export(self, target: IO[bytes]) -> None:
        target.write(b"PK exported")

    def notices(self) -> list[str]:
        return list(self.shown_notices)

    def methods(self) -> list[MethodInfo]:
        return METHODS

    def documents(self) -> list[Document]:
        return list(self.stored_documents)

    def ingest(self, files: list[tuple[Path, str]], cancel: Event) -> Iterator[list[IngestProgress]]:
        states = [IngestProgress(name, "", 0, 0) for _, name in files]
        for index, (path, name) in enumerate(files):
            content = path.read_bytes()
            if not content:
                states[index] = IngestProgress(name, "failed", 0, 0, EMPTY_FILE)
                yield list(states)
                continue
            for stage, total in (("parsed", 1), ("chunked", 1), ("embedded", 5), ("prefilled", 8)):
                for done in range(total + 1):
                    while stage == self.pause_at_stage and done and not cancel.wait(POLL_S):
                        pass
                    if cancel.wait(self.pace_s):
                        states[index] = IngestProgress(name, "failed", 0, 0, "Cancelled. Nothing was added.")
                        yield list(states)
                        return
                    states[index] = IngestProgress(name, stage, done, total)
                    yield list(states)
            digest = hashlib.sha256(content).hexdigest()
            unchanged = any(document.id == digest for document in self.stored_documents)
            if not unchanged:
                document = Document(digest, name, len(content), None, 8, time.time(), parser_version=PARSER_VERSION)
                self.stored_documents.insert(0, document)
            states[index] = IngestProgress(name, "done", 1, 1, "", digest, unchanged)
            yield list(states)

    accepts_web_pages = True

    @property
    def outgoing_note(self) -> str:
        return server_note(self.methods())

    def ingest_web_page(self, url: str, cancel: Event) -> Iterator[list[IngestProgress]]:
        with TemporaryDirectory() as folder:
            path = Path(folder, "page.html")
            path.write_text(url)
            yield from self.ingest([(path, "page.html")], cancel)

    def delete(self, document_id: str) -> bool:
        before = self.stored_documents
        self.stored_documents = [document for document in before if document.id != document_id]
        return len(self.stored_documents) < len(before)

    def has_pages(self, document_id: str) -> bool:
        return any(each.id == document_id and each.num_pages for each in self.documents())

    def page_picture(self, chunk_id: str, page: int, quote: str) -> bytes | None:
        document_id, _, _ = chunk_id.rpartition("-")
        picture = Image.new("RGB", (600, 800), "white")
        ImageDraw.Draw(picture).text((20, 20), f"page {page}: {quote}", "black")
        sink = io.BytesIO()
        picture.save(sink, "PNG")
        if document_id not in {each.id for each in self.documents()}:
            raise NoSuchDocument("This passage is not in the library.")
        return sink.getvalue() if self.has_original and self.has_pages(document_id) else None

    def tier_usage(self) -> list[TierUsage]:
        size = 12_400_000 * len(self.stored_documents)
        return [] if self.cleared else [TierUsage("host", size, 2**30), TierUsage("disk", 3 * size, 2**33)]

    def clear(self) -> None:
        self.cleared = True
        self.cache.tree.clear()

    def budget(self, request: Request) -> ContextBudget:
        tokens, alone = 400 * len(request.documents or self.stored_documents), len(request.documents) == 1
        return ContextBudget(2048, 24, min(tokens, 1200), len(request.question.split()), 256, 0, tokens, alone)

    def ask(self, request: Request, cancel: Event) -> Iterator[Answer]:
        with self.metrics.track() as update:
            yield from map(update, self.answers_to(request, cancel))

    def search(self, request: Request) -> list[Hit]:
        validate(request)
        sources = [self._source(rank, text, request) for rank, text in enumerate(self.texts, start=1)]
        return [
            Hit(
                Chunk(source.chunk, source.document_id, source.document, source.rank, source.page, 0, 0, source.text),
                1 / source.rank,
                source.similarity,
                source.matched_words,
            )
            for source in sources[: request.passages]
        ]

    def inspect(self, request: Request, cancel: Event) -> Iterator[InspectionStep]:
        return self.inspection.inspect(request, cancel)

    def compare(self, request: CompareRequest, cancel: Event) -> Iterator[Comparison]:
        return self.comparison.compare(request, cancel)

    def metrics_text(self) -> str:
        return self.metrics.render()

    def answers_to(self, request: Request, cancel: Event) -> Iterator[Answer]:
        self.requests.append(request)
        if not self.state.ready:
            raise ModelNotReady("The model is still loading.")
        validate(request)
        if self.error:
            raise self.error
        trace = Trace()
        answer = Answer(request, trace, question_tokens=len(request.question.split()))
        try:
            yield replace(answer)
            cancel.wait(5 * self.pace_s)
            sources = tuple(self._source(rank, text, request) for rank, text in enumerate(self.texts, start=1))
            answer.sources, answer.state = sources, "reading"
            answer.context_tokens = sum(source.tokens for source in sources)
            answer.recomputed_tokens = sum(source.recomputed_tokens for source in sources)
            answer.actual_ratio = answer.recomputed_tokens / answer.context_tokens
            answer.expected_kl = self.max_kl and self.max_kl * (1 - answer.actual_ratio)
            answer.prompt_tokens, answer.max_tokens = answer.context_tokens + answer.question_tokens + 24, 2048
            answer.num_dropped_passages = 2
            yield replace(answer)
            cancel.wait(5 * self.pace_s)
            if request.draft and self.draft:
                answer.draft = replace(answer, text=self.draft, trace=Trace(ttft_ms=58.0))
                yield replace(answer)
                while self.pause_after_words == 0 and not cancel.wait(POLL_S):
                    pass
            slower = 0.4 + 3 * request.recompute_ratio
            trace.ttft_ms = None if answer.draft and cancel.is_set() else 386.4 * slower
            trace.stages.extend(Stage(s.name, s.start_ms * slower, s.length_ms * slower) for s in STAGES)
            for index, word in enumerate(self.answer.split(" ")):
                while index >= self.pause_after_words and not cancel.wait(POLL_S):
                    pass
                if cancel.wait(self.pace_s):
                    break
                answer.state, answer.text = "writing", f"{answer.text} {word}".lstrip()
                answer.new_tokens, answer.tokens_per_second = answer.new_tokens + 2, 27.4
                answer.preview = self._preview(request)
                yield replace(answer)
            answer.state = "stopped" if cancel.is_set() else "done"
            answer.sources = tuple(replace(s, cited=f"[{s.rank}]" in answer.text) for s in sources)
            answer.notes = ("2 passages did not fit into the model's context and were left out.",)
            yield replace(answer)
        finally:
            self.cancelled.append(cancel.is_set())

    def _preview(self, request: Request) -> Callable[[float], RatioPreview | None] | None:
        """Return the preview of an answer: what `answers_to` would recompute and wait at another ratio."""
        method, texts = next(each for each in METHODS if each.name == request.method), self.texts

        def preview(ratio: float) -> RatioPreview | None:
            other = replace(request, recompute_ratio=ratio)
            sources = [self._source(rank, text, other) for rank, text in enumerate(texts, start=1)]
            passages = tuple(MarkedPassage(source.text_spans, source.recomputed_tokens) for source in sources)
            if method.name == "cacheblend":
                return None
            return RatioPreview(passages, 386.4 * (0.4 + 3 * ratio), self.max_kl and self.max_kl * (1 - ratio))

        return preview if method.has_ratio else None

    def _source(self, rank: int, text: str, request: Request) -> Source:
        """Return a source in which the first part of every 100 characters is recomputed."""
        fresh = round(100 * request.recompute_ratio)
        pieces = [
            TextSpan(part, recomputed)
            for start in range(0, len(text), 100)
            for part, recomputed in ((text[start : start + fresh], True), (text[start + fresh : start + 100], False))
            if part
        ]
        names = [(document.name, document.id) for document in self.stored_documents]
        name, document_id = names[rank % len(names)] if names else ("harbour-handbook.md", "d" * 64)
        tokens = max(1, len(text) // 4)
        return Source(
            rank=rank,
            document=name,
            document_id=document_id,
            page=None if rank == 2 else 10 * rank + 1,
            similarity=None if rank == 3 else 0.74 - 0.1 * rank,
            matched_words=rank != 1,
            tokens=tokens,
            tier=("host", "disk", "computed")[rank % 3] if request.method != "full" else "none",
            recomputed_tokens=round(0.91 * request.recompute_ratio * tokens),
            text_spans=tuple(pieces),
            chunk=f"{(self.stored_documents[0].id if self.stored_documents else 'd' * 64)}-{rank}",
            cache_result=("chunk hit", "exact prefix hit", "miss")[rank % 3] if request.method != "full" else "none",
        )
