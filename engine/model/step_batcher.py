"""Continuous batching: answers that are decoded at the same time share steps, between the layers of a prefill.

A step mostly waits for the weights, so one for eight answers takes little longer than one for a single answer. Every
request runs in a thread of its own; whichever waits when the model is free runs the step for all (iteration-level
scheduling: Orca, OSDI 2022). Steps and the layers of a prefill take turns, so neither stops the other.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Condition, get_ident
from time import monotonic

from torch import Tensor

from engine.model.kernels.decode_step import MAX_ROWS
from engine.model.kv_buffer import KVBuffer

GATHER_S = 0.005  # that a step waits for the answers which took part in the last one, or waited meanwhile
LAYERS_S = 0.05  # that the layers of a prefill may keep the model after a step


@dataclass(eq=False)
class DecodeRows:
    """The next tokens of one answer, stored from slot `start` of its buffer on; at most MAX_ROWS."""

    ids: Sequence[int]
    buffer: KVBuffer
    start: int
    logits: Tensor | None = None  # [R, V] in fp32, after the step
    error: BaseException | None = None  # raised by the step
    is_taken: bool = False  # by a thread that runs the step

    @property
    def slots(self) -> range:
        return range(self.start, self.start + len(self.ids))

    @property
    def is_done(self) -> bool:
        return self.logits is not None or self.error is not None


class StepBatcher:
    """Collects the rows of all answers in progress on one model; `run` returns the logits [R, V] of each."""

    def __init__(self, run: Callable[[Sequence[DecodeRows]], Sequence[Tensor]]) -> None:
        self._run = run
        self._changed = Condition()  # guards all below
        self._waiting: list[DecodeRows] = []
        self._num_answers = 0
        self._num_expected = 0  # answers whose rows a step waits for
        self._stepping_thread: int | None = None
        self._gather_until = 0.0  # this and the next two are times of `monotonic`
        self._layers_until = 0.0
        self._layer_ended = 0.0
        self._num_layers_running = 0
        self._num_layers_waiting = 0

    @property
    def max_rows(self) -> int:
        """The rows of one answer for which a step has room now."""
        return max(1, MAX_ROWS // max(1, self._num_answers))

    @contextmanager
    def answer(self) -> Iterator[None]:
        """Enclose the decoding of one answer, so that steps wait for its rows."""
        with self._changed:
            self._num_answers += 1
            self._num_expected += 1
        try:
            yield
        finally:
            with self._changed:
                self._num_answers -= 1
                self._num_expected = min(self._num_expected, self._num_answers)
                self._changed.notify_all()

    @contextmanager
    def layer(self) -> Iterator[None]:
        """Enclose one layer of a pass over a prompt; steps run before and after it, and when it pauses."""
        if self._stepping_thread == get_ident():
            yield  # the layer is part of the step
            return
        with self._changed:
            self._begin_layer()
        try:
            yield
        finally:
            with self._changed:
                self._end_layer()

    def pause_layer(self) -> None:
        """Let a step run inside a layer if it is due: the layers of a long prompt take a third of a second."""
        with self._changed:
            if self._stepping_thread != get_ident() and not self._may_run_layer():
                self._end_layer()
                self._begin_layer()

    def step(self, ids: Sequence[int], buffer: KVBuffer, start: int) -> Tensor:
        """Return the logits [R, V] after the next token `ids` of one answer; raise what the step raised."""
        rows = DecodeRows(ids, buffer, start)
        deadline = monotonic() + GATHER_S
        with self._changed:
            self._waiting.append(rows)  # wakes no other thread: if a step may run now, this one runs it
        while batch := self._next_batch(rows, deadline):
            self._run_batch(batch)
        if rows.error is not None:
            raise rows.error
        assert rows.logits is not None
        return rows.logits

    def _next_batch(self, rows: DecodeRows, deadline: float) -> list[DecodeRows]:
        """Wait until this thread is to run a step, and return its rows; none once `rows` are done."""
        with self._changed:
            while not rows.is_done:
                if not rows.is_taken and self._may_step(deadline):
                    return self._take()
                self._changed.wait(GATHER_S)
        return []

    def _begin_layer(self) -> None:
        self._num_layers_waiting += 1
        self._changed.wait_for(self._may_run_layer)
        self._num_layers_waiting -= 1
        self._num_layers_running += 1

    def _end_layer(self) -> None:
        self._num_layers_running -= 1
        self._layer_ended = monotonic()
        self._changed.notify_all()

    def _may_run_layer(self) -> bool:
        return self._stepping_thread is None and (not self._waiting or monotonic() < self._layers_until)

    def _may_step(self, deadline: float) -> bool:
        now = monotonic()
        if self._stepping_thread is not None or self._num_layers_running:
            return False
        is_in_prefill = self._num_layers_waiting > 0 or now < self._layer_ended + GATHER_S  # the next layer follows
        if is_in_prefill and now < self._layers_until:
            return False
        return len(self._waiting) >= self._num_expected or now >= max(deadline, self._gather_until)

    def _take(self) -> list[DecodeRows]:
        """Remove and return the rows that run next, in the order of their arrival."""
        batch = list[DecodeRows]()
        num_rows = 0
        while self._waiting and num_rows + len(self._waiting[0].ids) <= MAX_ROWS:
            rows = self._waiting.pop(0)
            rows.is_taken = True
            num_rows += len(rows.ids)
            batch.append(rows)
        self._stepping_thread = get_ident()
        return batch

    def _run_batch(self, batch: Sequence[DecodeRows]) -> None:
        outcomes = self._outcomes(batch)
        with self._changed:
            for rows, outcome in zip(batch, outcomes, strict=True):
                if isinstance(outcome, BaseException):
                    rows.error = outcome
                else:
                    rows.logits = outcome
            # An answer that is in neither is not read: it is not waited for until its rows come.
            self._num_expected = min(self._num_answers, len(batch) + len(self._waiting))
            self._stepping_thread = None
            self._gather_until = monotonic() + GATHER_S
            self._layers_until = monotonic() + LAYERS_S
            self._changed.notify_all()

    def _outcomes(self, batch: Sequence[DecodeRows]) -> list[Tensor | BaseException]:
        """Return the logits of each, or what its step raised; after an error each runs alone."""
        try:
            return list(self._run(batch))
        except BaseException as error:  # noqa: BLE001  raised again in the answer's own thread
            return [error] if len(batch) == 1 else [each for rows in batch for each in self._outcomes([rows])]
