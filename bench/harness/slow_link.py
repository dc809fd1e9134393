"""A TCP proxy in front of a server: a link of limited speed, or a server that accepts connections and never answers."""

import socket
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from threading import Thread

PIECE = 16_384  # bytes


@contextmanager
def slow_link(host: str, port: int, bytes_per_s: float) -> Iterator[int]:
    """Yield the proxy's port. What the server sends passes at `bytes_per_s`; with 0, nothing passes at all."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        Thread(target=_accept, args=(listener, host, port, bytes_per_s), daemon=True).start()
        yield listener.getsockname()[1]


def _accept(listener: socket.socket, host: str, port: int, bytes_per_s: float) -> None:
    kept = []  # an object that is collected closes its connection
    with suppress(OSError):
        while True:
            client, _ = listener.accept()
            kept.append(client)
            if bytes_per_s:
                server = socket.create_connection((host, port))
                Thread(target=_copy, args=(client, server, 0.0), daemon=True).start()
                Thread(target=_copy, args=(server, client, PIECE / bytes_per_s), daemon=True).start()


def _copy(source: socket.socket, target: socket.socket, seconds_per_piece: float) -> None:
    due = time.monotonic()
    with suppress(OSError), closing(target):
        while piece := source.recv(PIECE):
            target.sendall(piece)
            due = max(time.monotonic(), due) + seconds_per_piece * len(piece) / PIECE
            time.sleep(max(0.0, due - time.monotonic()))
