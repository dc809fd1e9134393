"""Record the run that the first screen shows: `python -m scripts.record_demonstration`, on an idle machine.

The sample documents are added to a temporary library; both methods run three times, and their median is kept.
"""

import json
import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from threading import Event

from assets import ASSETS
from backend.local import LocalBackend
from backend.runtime.settings import Settings
from engine.method import default_method
from engine.request import Request, TextSpan
from store.data_folder import default_data_folder
from ui.pages.ask.demonstration import (
    PASSAGES,
    RATIO,
    RECORDING,
    Demonstration,
    Lane,
    as_json,
    demonstration_request,
)

REPEATS = 3
BEFORE_CHARS, EXCERPT_CHARS = 240, 900  # of the passage that is shown, around its longest recomputed span


def main() -> None:
    """Write the recording."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("question", nargs="?", default="How long does the crossing on the North Route take?")
    parser.add_argument("--machine", required=True, help="shown below the recording, e.g. 'AMD EPYC (Zen 4), 2 cores'")
    parser.add_argument("--data", type=Path, default=default_data_folder(), help="folder with the unpacked model")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kvscope-record-") as folder:
        data = Path(folder)
        (data / "models").symlink_to((arguments.data / "models").absolute())
        backend = LocalBackend(Settings(data=data, sample_docs=False, idle_calibration=False))
        backend.start()
        backend.loader.wait(600)
        for _ in backend.ingest([(path, path.name) for path in sorted((ASSETS / "samples").iterdir())], Event()):
            pass
        RECORDING.write_text(json.dumps(as_json(_record(backend, arguments)), indent=1) + "\n")
        backend.close()


def _record(backend: LocalBackend, arguments: Namespace) -> Demonstration:
    question = arguments.question
    documents = tuple(document.id for document in backend.documents())
    method = default_method(backend.methods()).name
    request = Request(question, method, recompute_ratio=RATIO, passages=PASSAGES, documents=documents)
    *_, answer = backend.ask(request, Event())  # first: full prefill leaves exact KV, and nothing would be recomputed
    *_, compared = backend.compare(demonstration_request(backend, question, documents, REPEATS), Event())
    full, reuse = (Lane(each.ttft_ms, each.answer, each.recomputed_tokens) for each in compared.outcomes)
    print(full, reuse, sep="\n")
    passage = max(answer.sources, key=lambda source: source.recomputed_tokens)  # the first one's KV is exact as it is
    source = (
        f"Recorded on {date.today():%-d %B %Y} on {arguments.machine}, {compared.model}: median of {REPEATS} runs each."
    )
    marked = _excerpt(passage.text_spans)
    return Demonstration(
        question, compared.context_tokens, (full, reuse), compared.outcomes[1].label, source, passage.document, marked
    )


def _excerpt(spans: Sequence[TextSpan]) -> tuple[tuple[str, bool], ...]:
    """Return the text around the longest recomputed span, as pieces with whether each was recomputed."""
    longest = max(spans, key=lambda span: len(span.text) * span.recomputed)
    at = sum(len(span.text) for span in spans[: spans.index(longest)])
    pieces, start, end = [], 0, at - BEFORE_CHARS + EXCERPT_CHARS
    for span in spans:
        text = span.text[max(0, at - BEFORE_CHARS - start) : max(0, end - start)]
        if text:
            pieces.append((text, span.recomputed))
        start += len(span.text)
    return tuple(pieces)


if __name__ == "__main__":
    main()
