"""The processes of a cluster.

  python -m cluster up --engines 2       all of them on this machine, for a trial, until Ctrl+C or `down`
  python -m cluster down
  python -m cluster library --port 7870  the documents of several KVScope instances, see docs/cluster.md
  python -m cluster engines --engines 2  Ray and the engines

Further options are those of `app.py`; use the same ones for all processes.
"""

import argparse
import logging
import os
import secrets
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from math import ceil
from pathlib import Path
from threading import Event, Thread

import psutil

from backend.runtime.loader import GIB, model_config
from backend.runtime.secrets import ANSWER_SERVER_KEY, KV_SERVER_PASSWORD, LIBRARY_KEY, Secrets, take_secrets
from backend.runtime.settings import Settings, all_names, read_settings
from cluster.processes import FOLDER_VARIABLE, Supervised, end_all, end_left
from engine.errors import BadRequest
from server.access import KEYS_VARIABLE
from store.errors import KVScopeError

VALKEY_MEMORY = "2gb"
LIBRARY_PORT = "7870"
PID_FILE = "cluster.pid"
POLL_S = 0.2
DOWN_S = 60.0
log = logging.getLogger("kvscope")


def main() -> int:
    """Run a command until it ends, or until Ctrl+C or SIGTERM; return the exit status."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    for noisy in ("httpx", "httpcore", "chromadb", "sentence_transformers"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    os.umask(0o077)  # only this user may read what is created
    arguments, others = _parser().parse_known_args()
    api_keys = os.environ.pop(KEYS_VARIABLE, "")  # child processes would inherit it
    try:
        defaults = ["--port", LIBRARY_PORT] if arguments.command == "library" else []
        settings, given = read_settings([*defaults, *others]), take_secrets()
        commands: dict[str, Callable[[], None]] = {
            "up": lambda: _up(arguments, others, settings, given, api_keys),
            "down": lambda: _down(settings.data),
            "library": lambda: _serve_library(arguments, settings, given),
            "engines": lambda: _run_engines(arguments, settings, given),
        }
        commands[arguments.command]()
    except KVScopeError as error:
        log.error("%s", error)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m cluster",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("command", choices=["up", "down", "library", "engines"])
    add("--engines", type=int, default=2, help="how many")
    add("--max-engines", type=int, default=0, help="up to which Ray starts more while there are many questions")
    add("--threads", type=int, default=0, help="of each engine, which Ray reserves (default: what torch chooses)")
    add("--address", default="", help="Ray cluster for the engines that runs already: auto (default: it is started)")
    add("--certificate", default="", help="file for TLS of the library")
    add("--certificate-key", default="", help="file with its private key")
    return parser


def _up(
    arguments: argparse.Namespace, others: Sequence[str], settings: Settings, given: Secrets, api_keys: str
) -> None:
    """Run everything on this machine: Valkey, Chroma, the library, the page, Ray and the engines."""
    from cluster.valkey import free_port, valkey_command

    data = settings.data
    data.mkdir(parents=True, exist_ok=True)
    if (running := _running(data / PID_FILE)) is not None:
        raise BadRequest(f"A cluster runs in {data} already (process {running.pid}). End it with down.")
    end_left(data)
    valkey, chroma, library = free_port(), free_port(), free_port()
    kv_server, key = settings.kv_server or f"redis://127.0.0.1:{valkey}/0", secrets.token_urlsafe(32)
    python, rest = [sys.executable, "-m"], [*_without(others, "data", "port", "host"), "--kv-server", kv_server]
    at_library = ["--library", f"http://127.0.0.1:{library}"]
    page = ["--data", str(data / "front"), "--host", settings.host, "--port", str(settings.port), "--cluster", "auto"]
    chroma_run = ["run", "--host", "127.0.0.1", "--port", str(chroma), "--path", str(data / "chroma")]
    at_chroma = ["--chroma", f"http://127.0.0.1:{chroma}"]
    on_library = ["library", "--data", str(data), "--host", "127.0.0.1", "--port", str(library), *at_chroma]
    mark = {FOLDER_VARIABLE: str(data)}
    with_library = {**mark, LIBRARY_KEY: key}
    passed_on = {
        KV_SERVER_PASSWORD: given.kv_server_password,
        ANSWER_SERVER_KEY: given.answer_server_key,
        KEYS_VARIABLE: api_keys,
    }
    processes = [
        Supervised("Chroma", [str(Path(sys.executable).with_name("chroma")), *chroma_run], mark, is_quiet=True),
        Supervised("The library", [*python, "cluster", *on_library, *rest], with_library),
        Supervised("The page", [*python, "app", *page, *at_library, *rest], {**with_library, **passed_on}),
    ]
    if not settings.kv_server:
        processes.insert(0, Supervised("Valkey", valkey_command(valkey, data, VALKEY_MEMORY), mark, is_quiet=True))
    (data / PID_FILE).write_text(str(os.getpid()))
    with ExitStack() as files:
        files.callback((data / PID_FILE).unlink, missing_ok=True)
        files.callback(end_all, processes)
        engine_settings = settings.updated({"kv_server": kv_server})

        def started() -> None:
            log.info("Open http://127.0.0.1:%d; the page waits for the engines", settings.port)

        _run_engines(arguments, engine_settings, given, processes, started)


def _run_engines(
    arguments: argparse.Namespace,
    settings: Settings,
    given: Secrets,
    processes: Sequence[Supervised] = (),
    started: Callable[[], None] = lambda: None,
) -> None:
    """Start Ray, unless it runs already, then `processes`, which may need it, and the engines; run until the end."""
    import ray

    from cluster.engine_server import EngineConfig, connect, start_engines

    cpus_per_engine = arguments.threads or 0.5
    if arguments.address:
        connect(arguments.address)
    else:
        cpus = ceil(cpus_per_engine * max(1, arguments.engines, arguments.max_engines))
        ray.init(num_cpus=cpus, include_dashboard=False, log_to_driver=False)
    with ExitStack() as files:
        files.callback(ray.shutdown)
        ended = Event()
        for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # Ray has set its own
            signal.signal(each, lambda *_: ended.set())
        supervising = Thread(target=_supervise, args=[processes, ended])
        supervising.start()
        files.callback(supervising.join)
        files.callback(ended.set)
        started()
        cache_bytes, bits = int(settings.cpu_cache_gib * GIB), settings.kv_server_bits
        config = EngineConfig(
            model_config(settings),
            settings.data,
            cache_bytes,
            settings.kv_server,
            given.kv_server_password,
            bits,
            arguments.threads,
        )
        start_engines(config, arguments.engines, arguments.max_engines, cpus_per_engine)
        log.info("%d engines are ready", arguments.engines)
        ended.wait()


def _supervise(processes: Sequence[Supervised], ended: Event) -> None:
    while not ended.is_set():
        for process in processes:
            process.check()
        ended.wait(POLL_S)


def _serve_library(arguments: argparse.Namespace, settings: Settings, given: Secrets) -> None:
    from cluster.library_server import serve

    serve(settings, given.library_key, arguments.certificate, arguments.certificate_key)


def _down(data: Path) -> None:
    """End what `up` has started, and wait until it has ended."""
    if (running := _running(data / PID_FILE)) is None:
        if end_left(data):
            return
        raise BadRequest(f"No cluster runs in {data}.")
    running.terminate()
    try:
        running.wait(DOWN_S)
    except psutil.TimeoutExpired:
        raise BadRequest(f"Process {running.pid} does not end.") from None


def _running(pid_file: Path) -> psutil.Process | None:
    """Return the process of `up`; None if it does not run."""
    with suppress(OSError, ValueError, psutil.Error):
        process = psutil.Process(int(pid_file.read_text()))
        if "cluster" in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE:
            return process
    return None


def _without(options: Sequence[str], *names: str) -> list[str]:
    """Return options without those of these settings and their values."""
    flags = [f"--{alias}".replace("_", "-") for name in names for alias in all_names(name).choices]
    kept, skip = [], False
    for option in options:
        if skip:
            skip = False
        elif option.partition("=")[0].replace("_", "-") in flags:
            skip = "=" not in option
        else:
            kept.append(option)
    return kept


if __name__ == "__main__":
    sys.exit(main())
