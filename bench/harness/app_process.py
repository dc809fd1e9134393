"""The application in a process of its own, for measures that need all of it."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError

from bench.errors import InvalidArgument

APP = Path(__file__).parents[2] / "app.py"
START_TIMEOUT_S = 300.0  # the first start unpacks the model
POLL_S = 0.1
TIMEOUT_S = 120.0  # for one response
PRELOADED = ["app", "backend.local", "server.routes", "ui.layout"]


class AppProcess:
    """The running app with a data folder of its own; a context manager that ends it."""

    def __init__(self, data: Path, *flags: str) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self._log = data / "app.log"
        self._data = data
        self._arguments = [str(APP), "--port", str(port), "--data", str(data), "--no-idle-calibration", *flags]

    def __enter__(self) -> "AppProcess":
        self.started = time.perf_counter()
        with self._log.open("w") as log:
            command = [sys.executable, *self._arguments]
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=APP.parent)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def wait_for(self, path: str, expected: str) -> float:
        """Poll a page until it contains `expected`; return the milliseconds since the start. Raises InvalidArgument."""
        while expected not in self._get(path):
            self._check()
            time.sleep(POLL_S)
        return 1e3 * (time.perf_counter() - self.started)

    def wait_for_samples(self) -> None:
        """Wait until the models are loaded and the sample documents added. Raises InvalidArgument."""
        self.wait_for("/healthz", '"ok"')
        while not (self._data / "samples-added").exists():
            self._check()
            time.sleep(POLL_S)

    def _check(self) -> None:
        if not self.is_running or time.perf_counter() - self.started > START_TIMEOUT_S:
            raise InvalidArgument(f"The app did not start. See {self._log}.")

    def ask(self, question: str, **options: Any) -> dict[str, Any]:
        """Return KVScope's part of the answer to a question: `ttft_ms` and others, see docs/http.md for `options`."""
        fields = {"model": "kvscope", "messages": [{"role": "user", "content": question}], "kvscope": options}
        body = json.dumps(fields).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.url}/v1/chat/completions", body, headers)
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:
            answer: dict[str, Any] = json.load(response)["kvscope"]
        return answer

    def _get(self, path: str) -> str:
        try:
            with urllib.request.urlopen(self.url + path, timeout=TIMEOUT_S) as response:
                return str(response.read().decode())
        except HTTPError as error:
            return error.read().decode()
        except (URLError, OSError):
            return ""


class ClusterProcess(AppProcess):
    """`python -m cluster up`, with all its processes."""

    def __init__(self, data: Path, *flags: str) -> None:
        super().__init__(data, *flags)
        self._arguments = ["-m", "cluster", "up", *self._arguments[1:]]


class ForkedAppProcess(AppProcess):
    """The running app in a fork of a process that has imported its modules, which saves most of the start."""

    is_killed = False

    def __enter__(self) -> "ForkedAppProcess":
        self.started = time.perf_counter()
        context = get_context("forkserver")
        context.set_forkserver_preload(PRELOADED)
        self._fork = context.Process(target=_run_app, args=(self._arguments, self._log))
        self._fork.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._fork.terminate()
        self._fork.join()

    @property
    def is_running(self) -> bool:
        return self._fork.is_alive()

    def kill(self) -> None:
        """End the process at once, without any clean-up."""
        self.is_killed = True
        self._fork.kill()
        self._fork.join()


def _run_app(arguments: list[str], log: Path) -> None:
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(file, stream.fileno())
    sys.argv = arguments
    sys.exit(import_module("app").main())
