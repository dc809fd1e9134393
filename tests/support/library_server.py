"""A library server in threads of this process, over a real connection."""

import time
from contextlib import contextmanager
from threading import Thread

import uvicorn

from cluster.library_app import library_app
from cluster.library_server import SharedLibrary
from store.ingest.chunker import ChunkConfig
from tests.support.fakes import WordEmbedder, word_tokenizer
from tests.support.ports import free_port

KEY = "a-key"
CHUNKING = ChunkConfig(tokens=20, overlap=5)


@contextmanager
def library_server(folder, port=None, embedder=None, max_file_bytes=2**20):
    """Serve the library of a folder; yield it and its address. The end closes all connections."""
    library = SharedLibrary(folder / "library", word_tokenizer(), embedder or WordEmbedder(), CHUNKING)
    port = port or free_port()
    app = library_app(library, KEY, max_file_bytes)
    server = uvicorn.Server(
        uvicorn.Config(app, port=port, log_level="error", lifespan="off", timeout_graceful_shutdown=1)
    )
    thread = Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield library, f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()
        library.close()
