"""KVScope's front door: settings, lock, backend, page. Run `python app.py --help` for the settings."""

import logging
import os
import signal
import socket
import sys
import warnings
from threading import Event

if __name__ == "__main__" and not {"-h", "--help"} & set(sys.argv):
    sys.stderr.write("KVScope is starting; loading its libraries takes some seconds.\n")
os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")  # the page shows progress
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import gradio as gr

from backend.local import LocalBackend
from backend.runtime.settings import overrides, read_settings
from server.routes import app_kwargs
from store.errors import KVScopeError
from store.kv.blobs import remove_all
from store.lock import FolderLock
from ui.layout import build, launch_options

SAMPLE_QUESTIONS = {
    "How much does the island card cost a year?": "faq.txt",
    "Who is the chief engineer of Harbour Line?": "harbour-handbook.md",
    "What is the name of the second electric boat that Harbour Line has ordered?": "season-report.html",
}
log = logging.getLogger("kvscope")


def main() -> int:
    """Serve the page until Ctrl+C. Returns the process's exit status."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    for noisy in ("httpx", "httpcore", "sentence_transformers", "chromadb", "filelock"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")  # what peft asks it for
    try:
        settings = read_settings()
        lock = FolderLock(settings.data)
    except KVScopeError as error:
        log.error("%s", error)
        return 1
    if settings.clear_cache:
        try:
            went, left = remove_all(settings.data / "kv")
        finally:
            lock.close()
        log.info("%.0f MB of chunk KV removed", went / 1e6)
        if left:
            log.error("%.0f MB in %s could not be removed. Whose are these files?", left / 1e6, settings.data / "kv")
        return 1 if left else 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends like Ctrl+C
    backend = LocalBackend(settings, overrides())
    page = build(backend, SAMPLE_QUESTIONS if settings.sample_docs else None)
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
        backend.start()  # not before: loading takes the time that Gradio gives its server to answer
        log.info("Open %s in a browser; Ctrl+C ends KVScope", page.local_url)
        Event().wait()
    except OSError as error:
        log.error("Port %d of %s cannot be used (%s). Pick another with --port.", settings.port, settings.host, error)
        return 1
    except KeyboardInterrupt:
        log.info("Closing")
    finally:
        backend.close()
        _stop_serving(page)
        lock.close()
    return 0


def _check_port(host: str, port: int) -> None:
    """Raise OSError if nobody can listen there: better before the models are loaded than after."""
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    socket.create_server((str(address[0]), port), family=family).close()


def _stop_serving(page: gr.Blocks) -> None:
    """End the server without waiting for open tabs: each keeps a connection as long as it lives."""
    if page.is_running:
        page.server.force_exit = True
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # it calls every connection cut here an error
        page.close(verbose=False)


if __name__ == "__main__":
    sys.exit(main())
