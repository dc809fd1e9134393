"""Questions to the running app whose answers are streamed: over the HTTP API and over the Gradio API of the page."""

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
from gradio_client import Client

STREAM_TIMEOUT_S = 600.0  # without any event of an answer
POLL_S = 0.05  # of gradio_client, whose own iterator polls a thousand times per second


class AnswerFailed(Exception):
    """The app answered with an error; the text is its message."""


@dataclass
class StreamedAnswer:
    """What a client received of one answer.

    text        the streamed text
    final       the fields of the complete answer; empty if it was stopped
    ttft_ms     from the question to the first text; None if there was none
    is_growing  whether each text that was shown is the beginning of the next and of the final text
    """

    text: str = ""
    final: dict[str, Any] = field(default_factory=dict)
    ttft_ms: float | None = None
    is_growing: bool = True
    start: float = field(default_factory=time.perf_counter)

    @property
    def is_stopped(self) -> bool:
        return not self.final

    def show(self, text: str) -> None:
        """Take the whole text so far."""
        self.is_growing &= text.startswith(self.text)
        self.text = text
        if text and self.ttft_ms is None:
            self.ttft_ms = 1e3 * (time.perf_counter() - self.start)


def ask_http(
    client: httpx.Client, question: str, method: str | None, documents: Sequence[str], stop_after: int | None
) -> StreamedAnswer:
    """Stream an answer over /v1/chat/completions; close the connection once `stop_after` characters have come.

    `client` has the app's address; without a `method` it is the default one. Raises AnswerFailed, httpx.HTTPError.
    """
    model = f"kvscope/{method}" if method else "kvscope"
    body: dict[str, Any] = {"model": model, "stream": True, "messages": [{"role": "user", "content": question}]}
    body["kvscope"] = {"documents": list(documents)}
    answer = StreamedAnswer()
    with client.stream("POST", "/v1/chat/completions", json=body) as response:
        if response.status_code != 200:
            response.read()
            raise AnswerFailed(response.json()["error"]["message"])
        for event in _events(response):
            if "error" in event:
                raise AnswerFailed(event["error"]["message"])
            delta = event["choices"][0]["delta"].get("content", "")
            answer.show(answer.text + delta)
            if event["choices"][0]["finish_reason"]:
                answer.final = event["kvscope"]
            elif stop_after is not None and len(answer.text) >= stop_after:
                break
    return answer


def _events(response: httpx.Response) -> Iterator[dict[str, Any]]:
    for line in response.iter_lines():
        if line == "data: [DONE]":
            return
        if line.startswith("data: "):
            yield json.loads(line.removeprefix("data: "))
    raise AnswerFailed("The stream ended without an end mark.")


def ask_gradio(
    client: Client, question: str, method: str | None, documents: Sequence[str], stop_after: int | None
) -> StreamedAnswer:
    """Stream an answer over /ask likewise, and cancel the call to stop it.

    Raises AnswerFailed, TimeoutError, and the client's own errors.
    """
    answer = StreamedAnswer()
    job = client.submit(question, method, documents=list(documents), api_name="/ask")
    while not job.done():
        for snapshot in job.outputs()[-1:]:
            answer.show(snapshot["answer"])
            if stop_after is not None and len(answer.text) >= stop_after:
                job.cancel()
                return answer
        if time.perf_counter() - answer.start > STREAM_TIMEOUT_S:
            raise TimeoutError(f"no answer within {STREAM_TIMEOUT_S:g} s")
        time.sleep(POLL_S)
    job.result()  # raises its error
    for snapshot in job.outputs():
        answer.is_growing &= job.outputs()[-1]["answer"].startswith(snapshot["answer"])
    answer.final = job.outputs()[-1]
    answer.show(answer.final["answer"])
    if answer.final["state"] != "done":
        raise AnswerFailed(f"The answer ended in the state {answer.final['state']}.")
    return answer
