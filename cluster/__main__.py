"""Engines for a trial on this machine: `python -m cluster up --engines 2`, and `python app.py --cluster auto` with it.

Starts Ray, a Valkey server unless `--kv-server` names one, and the engines; Ctrl+C ends them all. Further options are
those of `app.py` that concern models and the KV server; use the same ones for both.
"""

import argparse
import logging
import signal
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from threading import Event

import ray

from backend.runtime.loader import GIB, model_config
from backend.runtime.secrets import take_secrets
from backend.runtime.settings import Settings, read_settings
from cluster.engine_server import EngineConfig, start_engine
from cluster.valkey import running_valkey
from store.errors import KVScopeError

VALKEY_MEMORY = "2gb"
log = logging.getLogger("kvscope")


def main() -> int:
    """Run the engines until Ctrl+C or SIGTERM; return the exit status."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    parser = argparse.ArgumentParser(prog="python -m cluster", description=__doc__, allow_abbrev=False)
    parser.add_argument("command", choices=["up"])
    parser.add_argument("--engines", type=int, default=2, help="how many")
    parser.add_argument("--threads", type=int, default=0, help="of each engine (default: what torch chooses)")
    arguments, others = parser.parse_known_args()
    ended = Event()
    try:
        settings, secrets = read_settings(others), take_secrets()
        with ExitStack() as files:
            kv_server = settings.kv_server
            if not kv_server:
                folder = Path(files.enter_context(tempfile.TemporaryDirectory(prefix="kvscope-valkey-")))
                server = files.enter_context(running_valkey(folder, VALKEY_MEMORY))
                kv_server = f"redis://127.0.0.1:{server.port}/0"
            ray.init(num_cpus=max(1, arguments.engines), include_dashboard=False, log_to_driver=False)
            files.callback(ray.shutdown)
            for each in (signal.SIGINT, signal.SIGTERM):  # Ray has set its own
                signal.signal(each, lambda *_: ended.set())
            config = engine_config(settings, kv_server, secrets.kv_server_password, arguments.threads)
            for number in range(arguments.engines):
                start_engine(f"{number}", config, num_cpus=0.5)
                log.info("Engine %d of %d is ready", number + 1, arguments.engines)
            log.info("Now run: python app.py --cluster auto --kv-server %s", kv_server)
            ended.wait()
    except KVScopeError as error:
        log.error("%s", error)
        return 1
    return 0


def engine_config(settings: Settings, kv_server: str, password: str, threads: int) -> EngineConfig:
    """Return how to start engines that answer as an application with these settings."""
    cache_bytes = int(settings.cpu_cache_gib * GIB)
    bits = settings.kv_server_bits
    return EngineConfig(model_config(settings), settings.data, cache_bytes, kv_server, password, bits, threads)


if __name__ == "__main__":
    sys.exit(main())
