"""KVScope's front door: settings, lock, backend, page. Run `python app.py --help` for the settings."""

import logging
import os
import signal
import sys

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

from pydantic_settings import CliApp

from backend import LocalBackend
from settings import Settings
from store.errors import KVScopeError
from store.lock import FolderLock
from ui.page import build, launch_options

SAMPLE_QUESTIONS = (
    "How much does the island card cost a year?",
    "What is the name of the second electric boat that Harbour Line has ordered?",
    "What is the maintenance code of the Morning Gannet?",
)
log = logging.getLogger("kvscope")


def main() -> int:
    """Serve the page until Ctrl+C. Returns the process's exit status."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    for noisy in ("httpx", "httpcore", "sentence_transformers", "chromadb", "filelock"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    settings = CliApp.run(Settings)
    try:
        lock = FolderLock(settings.data)
    except KVScopeError as error:
        log.error("%s", error)
        return 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    backend = LocalBackend(settings)
    backend.start()
    try:
        build(backend, SAMPLE_QUESTIONS).launch(
            server_name=settings.host,
            server_port=settings.port,
            inbrowser=settings.open_browser,
            show_error=True,
            quiet=False,
            **launch_options(),
        )
    except OSError as error:
        log.error("Port %d cannot be used (%s). Pick another with --port.", settings.port, error)
        return 1
    except (KeyboardInterrupt, SystemExit):
        pass
    finally:
        backend.close()
        lock.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
