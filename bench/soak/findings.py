"""What the sessions have found: answers with parts of another one, and errors that are not announced limits."""

import re
from collections import Counter
from collections.abc import Collection
from threading import Lock

from bench.harness.streamed import StreamedAnswer
from engine.generation.stream import REPETITION
from engine.text import CITATION_MARK

ANNOUNCED = [  # limits of docs/limits.md, each with its remedy
    r"\d+ requests are already running, which is the limit \(--max-questions\)\. Try again when one has finished\.",
    r"\d+ of your questions are already being answered, which is the limit \(--client-questions\)\. Wait until .+",
    r"Too many [^.]+\. Try again in \d+ seconds\.",
    r"Stopped after \S+ minutes, the limit for one document\. Split the file, or restart with .+",
]
CODE = re.compile(r"(?<!\d)\d{9}(?!\d)")


class Findings:
    """Counts of what all sessions have done and found; the first error of a kind is printed. Thread-safe."""

    def __init__(self) -> None:
        self.counts = Counter[str]()
        self.ttfts_ms: list[float] = []
        self._codes = set[str]()  # of all documents, also deleted ones
        self._printed = set[str]()
        self._lock = Lock()

    def count(self, name: str) -> None:
        with self._lock:
            self.counts[name] += 1

    def add_code(self, code: str) -> None:
        with self._lock:
            self._codes.add(code)

    def add_error(self, message: str) -> None:
        announced = is_announced(message)
        self.count("announced_errors" if announced else "other_errors")
        if not announced:
            self._print_once(re.sub(r"\d+", "#", message), message)

    def add_answer(self, answer: StreamedAnswer, document: str, code: str) -> None:
        """Take an answer about the document of this name, which alone has this code."""
        self.count("stops" if answer.is_stopped else "questions")
        with self._lock:
            self.ttfts_ms += [] if answer.ttft_ms is None else [answer.ttft_ms]
            foreign = self._codes - {code}
        if reasons := mixed(answer, document, foreign):
            self.count("mixed")
            self._print_once(re.sub(r"\d+", "#", str(reasons)), f"mixed: {'; '.join(reasons)}: {answer}")

    def _print_once(self, kind: str, message: str) -> None:
        with self._lock:
            is_new = kind not in self._printed
            self._printed.add(kind)
        if is_new:
            print(message, flush=True)


def is_announced(message: str) -> bool:
    """Return whether an error is one of the limits that are announced."""
    return any(re.fullmatch(pattern, message) for pattern in ANNOUNCED)


def mixed(answer: StreamedAnswer, document: str, foreign_codes: Collection[str]) -> list[str]:
    """Return what shows that an answer about a document has parts of another answer or document; empty if nothing."""
    reasons = []
    sources, quotes = answer.final.get("sources", []), answer.final.get("quotes", [])
    texts = [answer.text, *(source["document"] for source in sources), *(quote["text"] for quote in quotes)]
    if found := set(CODE.findall("\n".join(texts))).intersection(foreign_codes):
        reasons.append(f"the codes {sorted(found)} of other documents")
    if others := {source["document"] for source in sources} - {document}:
        reasons.append(f"the sources {sorted(others)}")
    if not answer.is_stopped and not sources:
        reasons.append("no sources")
    is_replaced = REPETITION in answer.final.get("notes", [])  # by a quote
    if not answer.is_growing and not is_replaced:
        reasons.append("a stream that is not the final text")
    marks = {int(rank) for rank in CITATION_MARK.findall(answer.text)}
    cited = {source["rank"] for source in sources if source["cited"]}
    if marks != cited and not answer.is_stopped and not is_replaced:
        reasons.append("a text with other citations than its sources")
    return reasons
