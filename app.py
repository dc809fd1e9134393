"""Start KVScope: read the settings, lock the data folder, then serve the UI and the HTTP API.

Run `python app.py`, or `kvscope` if it is installed; `--help` lists the settings.
"""

import logging
import os
import signal
import socket
import sys
import time
import warnings
from pathlib import Path

if (__name__ == "__main__" or Path(sys.argv[0]).stem == "kvscope") and not {"-h", "--help"} & set(sys.argv):
    sys.stderr.write("KVScope is starting; loading its libraries takes a few seconds.\n")
os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")  # the UI shows progress
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # onnxruntime, of text recognition
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

from backend.local import LocalBackend
from backend.runtime.settings import Settings, overrides, read_settings
from server.routes import app_kwargs
from store.errors import KVScopeError
from store.kv.blobs import remove_all
from store.lock import FolderLock
from ui.layout import App, launch_options

SAMPLE_QUESTIONS = {
    "How much does the island card cost a year?": "faq.txt",
    "Who is the chief engineer of Harbour Line?": "harbour-handbook.md",
    "What is the name of the second electric boat that Harbour Line has ordered?": "season-report.html",
}
POLL_S = 0.2  # between two looks for a signal
log = logging.getLogger("kvscope")


def main() -> int:
    """Run KVScope until Ctrl+C or SIGTERM; return the exit status."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    for noisy in ("httpx", "httpcore", "sentence_transformers", "chromadb", "filelock"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")  # from calls by peft
    try:
        settings = read_settings()
        lock = FolderLock(settings.data)
    except KVScopeError as error:
        log.error("%s", error)
        return 1
    try:
        return _clear_cache(settings.data / "kv") if settings.clear_cache else _serve(settings)
    finally:
        lock.close()


def _clear_cache(folder: Path) -> int:
    removed_bytes, remaining_bytes = remove_all(folder)
    log.info("%.0f MB of chunk KV deleted", removed_bytes / 1e6)
    if remaining_bytes:
        log.error("%.0f MB in %s could not be deleted. Check the files' permissions.", remaining_bytes / 1e6, folder)
    return 1 if remaining_bytes else 0


def _serve(settings: Settings) -> int:
    signals: list[int] = []  # an exception raised by a signal could be lost in Gradio's launch
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, lambda number, frame: signals.append(number))
    backend = LocalBackend(settings, overrides())
    page = App(backend, SAMPLE_QUESTIONS if settings.sample_docs else None).blocks
    try:
        _check_port(settings.host, settings.port)
        page.launch(
            server_name=settings.host,
            server_port=settings.port,
            inbrowser=settings.open_browser,
            show_error=True,
            quiet=True,
            prevent_thread_lock=True,
            app_kwargs=app_kwargs(backend, settings.host),
            **launch_options(),
        )
        backend.start()  # after launch: loading would slow down the server's start beyond Gradio's timeout
        log.info("Open %s in a browser; press Ctrl+C to quit", page.local_url)
        while not signals:
            time.sleep(POLL_S)
        log.info("Closing")
    except OSError as error:
        message = "Port %d of %s is not available (%s). Choose another with --port."
        log.error(message, settings.port, settings.host, error)
        return 1
    finally:
        backend.close()
        if page.is_running:
            page.server.force_exit = True  # without waiting for open tabs, which keep a connection each
            logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # it reports every closed connection
            page.close(verbose=False)
    return 0


def _check_port(host: str, port: int) -> None:
    """Raise OSError if the port cannot be used: Gradio would report it less clearly."""
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    socket.create_server((str(address[0]), port), family=family).close()


if __name__ == "__main__":
    sys.exit(main())
