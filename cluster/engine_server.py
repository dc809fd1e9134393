"""The engines of a cluster as replicas of a Ray Serve deployment, and their client. Needs requirements-cluster.txt.

Ray starts as many as are needed, and again those that end. The dispatcher chooses an engine for each question, and the
deployment's request router sends it there. Messages are dataclasses of this project, which Ray pickles: a Ray cluster
trusts all its members.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import Any

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray reports its use to its makers otherwise

import ray
import torch
from ray import serve
from ray.exceptions import RayError, RayTaskError
from ray.serve.exceptions import RayServeException
from ray.serve.handle import DeploymentHandle

from cluster import running
from cluster.dispatch import Changes, EngineClient, EngineInfo, EngineLost, Question, changes_of
from cluster.request_router import EngineRouter
from engine.builder import ModelConfig, build_engine, load_models
from engine.cache.hierarchy import CacheHierarchy, CacheHierarchyConfig
from engine.errors import BadRequest
from engine.prompt.text_finder import TextFinder
from engine.request import Answer
from engine.scheduler.worker_thread import run_in_thread
from engine.trace import Trace
from store.kv.kv_server import KVServer

APPLICATION = "kvscope-engines"
MAX_QUESTIONS, MAX_CALLS = 64, 1024  # at a time
HEALTH_CHECK_S = 2.0
QUESTIONS_PER_ENGINE = 2.0  # at a time, on average: with more, another engine is started if the configuration allows it
UPSCALE_S, DOWNSCALE_S = 10.0, 300.0  # that there must be too many questions, or too few
CALL_TIMEOUT_S = 3.0  # of a call other than a question
HEARTBEAT_S, SILENCE_S = 1.0, 6.0  # signs of life during an answer, and their absence until an engine counts as lost


@dataclass(frozen=True)
class EngineConfig:
    """How to start an engine."""

    models: ModelConfig
    cost_folder: Path
    cache_bytes: int  # of chunk KV, in memory
    kv_server: str = ""
    kv_server_password: str = field(default="", repr=False)
    kv_server_bits: int = 16
    threads: int = 0  # of torch; 0: as many as torch chooses


class EngineServer:
    """One engine: a model, and chunk KV in memory and on the KV server. It has no documents."""

    def __init__(self, config: EngineConfig) -> None:
        self._name = serve.get_replica_context().replica_id.unique_id
        if config.threads:
            torch.set_num_threads(config.threads)
        models = load_models(config.models)
        server = KVServer(config.kv_server, config.kv_server_password) if config.kv_server else None
        sizes = CacheHierarchyConfig(config.cache_bytes, 0, config.cache_bytes, remote_bits=config.kv_server_bits)
        tiers = CacheHierarchy(sizes, None, models.primary.device, server)
        self._engine = build_engine(models, lambda tokenizer: TextFinder(), tiers, config.cost_folder)
        self._engine.disk_error = lambda: ""  # there is no disk tier on purpose
        self._cancels: dict[str, Event] = {}
        self._threads = ThreadPoolExecutor(MAX_QUESTIONS, "question")  # further ones wait

    async def info(self, engine: str) -> EngineInfo:
        """Return what must be equal on all engines."""
        self._check_name(engine)
        return EngineInfo.of(self._engine)

    async def ask(self, question: Question, engine: str) -> AsyncIterator[Changes]:
        """Yield the fields of the answer that have changed; nothing as a sign of life. Raises EngineLost."""
        self._check_name(engine)
        if question.info != EngineInfo.of(self._engine):
            raise EngineLost("it has another model")
        cancel = self._cancels[question.id] = Event()
        self._engine.fidelity = question.fidelity
        parts = run_in_thread(lambda: changes_of(self._engine.ask(question.request, cancel, question.prepared)), cancel)
        try:
            while True:
                following = asyncio.get_running_loop().run_in_executor(self._threads, next, parts, None)
                while not (await asyncio.wait([following], timeout=HEARTBEAT_S))[0]:
                    yield {}
                if (changes := following.result()) is None:
                    return
                yield changes
        finally:
            cancel.set()  # the client may be gone
            del self._cancels[question.id]

    async def stop(self, question_id: str, engine: str) -> None:
        """Stop a question; unknown ones are ignored."""
        if question_id in self._cancels:
            self._cancels[question_id].set()

    async def chunk_keys(self, engine: str) -> list[str]:
        """Return the keys of the chunks whose KV is here."""
        self._check_name(engine)
        with self._engine.cache.tree.locked() as tree:
            return [node.key for node in tree.nodes.values() if node.parent is None]

    async def delete(self, keys: Sequence[str], engine: str) -> None:
        """Delete chunks, and all encodings of passages, whose texts are not known here by their chunks' keys."""
        self._check_name(engine)
        await asyncio.to_thread(self._engine.passages.delete_keys, keys)

    def _check_name(self, engine: str) -> None:
        if engine != self._name:
            raise EngineLost("it ended")


class RayEngine:
    """An `EngineClient` through a Ray Serve handle."""

    def __init__(self, handle: DeploymentHandle[EngineServer], name: str) -> None:
        self._handle = handle
        self._name = name

    def info(self) -> EngineInfo:
        info: EngineInfo = self._call("info")
        return info

    def ask(self, question: Question) -> Iterator[Answer]:
        answer = Answer(question.request, Trace())
        with _ray_errors():
            response: Any = self._handle.options(stream=True).ask.remote(question, engine=self._name)
            try:
                for changes in _within(iter(response), SILENCE_S):
                    if changes:  # else a sign of life
                        answer = replace(answer, **changes)
                        yield answer
            finally:
                response.cancel()  # no effect if it has ended
        if answer.state not in ("done", "stopped"):
            raise EngineLost("its answer has no end")

    def stop(self, question_id: str) -> None:
        self._call("stop", question_id)

    def chunk_keys(self) -> list[str]:
        keys: list[str] = self._call("chunk_keys")
        return keys

    def delete(self, keys: Sequence[str]) -> None:
        self._call("delete", list(keys))

    def _call(self, method: str, *arguments: Any) -> Any:
        with _ray_errors():
            call = getattr(self._handle, method).remote(*arguments, engine=self._name)
            return call.result(timeout_s=CALL_TIMEOUT_S)


def _within(parts: Iterator[Changes], seconds: float) -> Iterator[Changes]:
    """Yield the items of an iterator. Raises EngineLost if the next one takes longer, and what the iterator raises."""
    queue = SimpleQueue[tuple[str, Any]]()

    def run() -> None:
        try:
            for part in parts:
                queue.put(("part", part))
            queue.put(("end", None))
        except Exception as error:  # noqa: BLE001  raised again by the caller
            queue.put(("error", error))

    Thread(target=run, name="engine", daemon=True).start()
    while True:
        try:
            kind, value = queue.get(timeout=seconds)
        except Empty:
            raise EngineLost(f"it was silent for {seconds:g} s") from None
        if kind == "end":
            return
        if kind == "error":
            raise value
        yield value


@contextmanager
def _ray_errors() -> Iterator[None]:
    """Raise what the engine raised, and EngineLost for what happened to the engine."""
    try:
        yield
    except RayTaskError as error:
        raise (error.cause or error) from None  # as the front's own engine would
    except (RayError, RayServeException, TimeoutError, RuntimeError) as error:
        raise EngineLost(f"{type(error).__name__}: {error}") from error


def connect(address: str) -> None:
    """Join a Ray cluster that this machine belongs to: 'auto', or its head's host:port. Raises BadRequest."""
    try:
        ray.init(address, log_to_driver=False, configure_logging=False)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise BadRequest(f"There is no Ray cluster at {address} ({error}).") from error


def start_engines(config: EngineConfig, number: int, max_number: int = 0, num_cpus: float = 0.5) -> None:
    """Start engines, or replace those that run; returns when they are ready. Raises what `load_models` raises.

    max_number  up to which Ray starts more while there are many questions; 0 for no more
    num_cpus    that Ray reserves for each
    """
    scaling = {
        "min_replicas": number,
        "max_replicas": max(number, max_number),
        "target_ongoing_requests": QUESTIONS_PER_ENGINE,
        "upscale_delay_s": UPSCALE_S,
        "downscale_delay_s": DOWNSCALE_S,
    }
    deployment: Any = serve.deployment(EngineServer)
    deployment = deployment.options(
        ray_actor_options={"num_cpus": num_cpus},
        autoscaling_config=scaling,
        max_ongoing_requests=MAX_CALLS,
        health_check_period_s=HEALTH_CHECK_S,
        request_router_config={"request_router_class": EngineRouter},
    )
    serve.run(deployment.bind(config), name=APPLICATION, route_prefix=None)


def running_engines() -> Mapping[str, EngineClient]:
    """Return the engines of the cluster that run, by name."""
    try:
        handle: DeploymentHandle[EngineServer] = serve.get_app_handle(APPLICATION)
    except RayServeException:  # there are none
        return {}
    if not running.engines:  # the first call creates the router
        with suppress(EngineLost):
            RayEngine(handle, "").info()
    return {name: RayEngine(handle, name) for name in running.engines}
