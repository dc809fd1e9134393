"""Start KVScope: read the settings, lock the data folder, then serve the UI and the HTTP API.

Libraries that take seconds to import are imported once the port answers, with a page that says so.
With `--mcp` there is neither page nor port: it serves one client of the Model Context Protocol on stdin and stdout.
Run `python app.py`, or `kvscope` if it is installed; `--help` lists the settings.
"""

import gc
import logging
import os
import signal
import sys
import tempfile
import time
import warnings
import webbrowser
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")  # the UI shows progress
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")  # the default, 1024, takes more memory
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # onnxruntime, of text recognition
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

from backend.runtime.free_memory import release_heap
from backend.runtime.secrets import take_secrets
from backend.runtime.settings import Settings, overrides, read_settings
from server.access import KEYS_VARIABLE, read_access
from server.starting_page import StartingPage
from store.audit import AuditLog
from store.data_folder import restrict_access, temporary_folder
from store.errors import FolderInUse, KVScopeError
from store.lock import FolderLock

if TYPE_CHECKING:
    from cluster.dispatch import Dispatcher

SAMPLE_QUESTIONS = {
    "How much does the island card cost a year?": "faq.txt",
    "Who is the chief engineer of Harbour Line?": "harbour-handbook.md",
    "What is the name of the second electric boat that Harbour Line has ordered?": "season-report.html",
}
POLL_S = 0.2  # between two looks for a signal
CLEAN_S = 600.0  # from one deletion of old temporary files to the next
RELEASE_S = 60.0  # from one release of free memory to the next
log = logging.getLogger("kvscope")


def main() -> int:
    """Run KVScope until Ctrl+C or SIGTERM; return the exit status."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    for noisy in ("httpx", "httpcore", "sentence_transformers", "chromadb", "filelock", "mcp"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")  # from its own calls
    os.umask(0o077)  # only this user may read what is created
    try:
        settings = read_settings()
        if settings.has_command:
            from backend.runtime.commands import run_command

            return run_command(settings)
        with closing(_lock(settings)), temporary_folder(settings.data) as temporary:
            restrict_access(settings.data)
            return _serve_mcp(settings, temporary) if settings.mcp else _serve(settings, temporary)
    except KVScopeError as error:
        log.error("%s", error)
        return 1


def _lock(settings: Settings) -> FolderLock:
    if not settings.mcp:
        return FolderLock(settings.data, _url(settings))
    try:
        return FolderLock(settings.data)
    except FolderInUse as error:
        if not error.url:
            raise
        advice = f"It serves MCP at {error.url}/mcp: have the client use this address."
        raise FolderInUse(f"{error.args[0]} {advice}") from None


def _serve_mcp(settings: Settings, temporary: Path) -> int:
    """Serve MCP until stdin or the process ends; return the exit status."""
    output = os.fdopen(os.dup(1), "w", encoding="utf-8", newline="\n")
    os.dup2(2, 1)  # the client would take anything else on stdout for a message
    os.environ.pop(KEYS_VARIABLE, None)  # child processes would inherit it
    secrets = take_secrets()
    tempfile.tempdir = str(temporary.absolute())
    with _quick_imports():
        from backend.local import LocalBackend
        from server.audit import audited
        from server.mcp.tools import Tools
        from server.mcp.transports import serve_stdio
        from server.watched import WatchedFolders
    backend = LocalBackend(settings, overrides(), secrets, _cluster(settings))
    served = audited(backend, AuditLog(settings.data if settings.audit else None))
    tools = Tools(served, settings.max_questions)
    serving = Thread(target=serve_stdio, args=(tools, output), daemon=True)  # at the end it may be waiting for stdin
    signals = _signals()
    with closing(backend), closing(WatchedFolders(served, settings.data, settings.watch)) as watched:
        backend.start()
        watched.start()
        serving.start()
        log.info("Serving MCP on stdin and stdout")
        _wait(lambda: serving.is_alive() and not signals, {release_heap: RELEASE_S})
    return 0


def _serve(settings: Settings, temporary: Path) -> int:
    access, secrets = read_access(settings), take_secrets()
    if settings.web_pages is None:
        settings = settings.updated({"web_pages": access.credentials is None and not access.is_open})
    try:
        starting = StartingPage(settings.host, settings.port)
    except OSError as error:
        return _report_port(settings, error)
    with closing(starting):
        url = _url(settings)
        log.info("KVScope is starting on %s; loading its libraries takes a few seconds", url)
        if settings.open_browser:
            webbrowser.open(url)
        tempfile.tempdir = str(temporary.absolute())
        os.environ["GRADIO_TEMP_DIR"] = str(temporary.absolute() / "gradio")  # apart: it copies files from elsewhere
        with _quick_imports():
            from backend.local import LocalBackend
            from server.audit import audited
            from server.limits import limit_questions
            from server.routes import app_kwargs
            from server.watched import WatchedFolders
            from ui.layout import App, launch_options
            from ui.upload_files import delete_old
        backend = LocalBackend(settings, overrides(), secrets, _cluster(settings))
        audit = AuditLog(settings.data if settings.audit else None)
        served = audited(limit_questions(backend, access.limits), audit)
        samples = SAMPLE_QUESTIONS if settings.sample_docs else None
        watched = WatchedFolders(audited(backend, audit), settings.data, settings.watch)
        page = App(
            served,
            samples,
            access.credentials is not None,
            access.is_open,
            settings.max_questions,
            watched.status,
            watched.undo,
        ).blocks
    signals = _signals()
    try:
        try:
            page.launch(
                server_name=settings.host,
                server_port=settings.port,
                show_error=True,
                quiet=True,
                prevent_thread_lock=True,
                **launch_options(
                    app_kwargs(served, settings.host, access, settings.max_questions, audit),
                    settings.limits.max_file_bytes,
                    page,
                ),
            )
        except OSError as error:
            return _report_port(settings, error)
        backend.start()  # after launch: loading would slow down the server's start beyond Gradio's timeout
        watched.start()
        log.info("Open %s in a browser; press Ctrl+C to quit", page.local_url)
        _wait(lambda: not signals, {partial(delete_old, temporary): CLEAN_S, release_heap: RELEASE_S})
        log.info("Closing")
    finally:
        watched.close()
        backend.close()
        if page.is_running:
            page.server.force_exit = True  # without waiting for open tabs, which keep a connection each
            logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # it reports every closed connection
            page.close(verbose=False)
    return 0


def _cluster(settings: Settings) -> "Dispatcher | None":
    """Return the engines of a Ray cluster; None without one. Raises BadRequest."""
    if not settings.cluster:
        return None
    from cluster.dispatch import Dispatcher
    from cluster.engine_server import connect, running_engines

    connect(settings.cluster)
    return Dispatcher(running_engines)


@contextmanager
def _quick_imports() -> Iterator[None]:
    """Collect no garbage, a fifth of the time of importing: what is imported stays."""
    gc.disable()
    yield
    gc.freeze()
    gc.enable()


def _signals() -> list[int]:
    """Return a list of the signals to end that arrive; an exception could be lost in Gradio's launch."""
    signals: list[int] = []
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, lambda number, frame: signals.append(number))
    return signals


def _wait(is_running: Callable[[], bool], repeated: Mapping[Callable[[], object], float]) -> None:
    """Wait for an end; meanwhile call functions, each every so many seconds."""
    due = dict.fromkeys(repeated, 0.0)
    while is_running():
        for function, period_s in repeated.items():
            if time.monotonic() > due[function]:
                function()
                due[function] = time.monotonic() + period_s
        time.sleep(POLL_S)


def _report_port(settings: Settings, error: OSError) -> int:
    message = "Port %d of %s is not available (%s). Choose another with --port."
    log.error(message, settings.port, settings.host, error)
    return 1


def _url(settings: Settings) -> str:
    """Return the address for a browser on this machine."""
    host = settings.host.strip("[]")
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://{f'[{host}]' if ':' in host else host}:{settings.port}"


if __name__ == "__main__":
    sys.exit(main())
