"""Ports for servers in processes of their own."""

import random
import socket
from contextlib import suppress


def free_port() -> int:
    """Return a port below those that a system gives to outgoing connections, the browser's among them: the app takes
    seconds to start, and until then the port must stay free."""
    for port in random.sample(range(20_000, 32_000), 100):
        with socket.socket() as free, suppress(OSError):
            free.bind(("127.0.0.1", port))
            return port
    raise OSError("no port is free")
