"""A server with OpenAI's chat completion API that sends what a test wants."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def chunk(content, reason=None):
    """A line of a streamed completion."""
    event = {"choices": [{"index": 0, "delta": {"content": content}, "finish_reason": reason}]}
    return f"data: {json.dumps(event)}\n\n"


class CompletionServer:
    """Sends `lines` with `status`; while `hold` is cleared, it waits before the second line.

    requests  the bodies that came, and headers  their headers
    ended     set when a response has ended, also because the client left
    """

    def __init__(self, *lines, status=200, kind="text/event-stream", encoding=""):
        self.lines, self.status, self.kind = lines, status, kind
        self.requests, self.headers, self.ended = [], [], threading.Event()
        self.hold = threading.Event()
        self.hold.set()
        double = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                double.requests.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                double.headers.append(dict(self.headers))
                self.send_response(double.status)
                self.send_header("Content-Type", double.kind)
                if encoding:
                    self.send_header("Content-Encoding", encoding)
                self.end_headers()
                try:
                    for line in double.lines:
                        self.wfile.write(line.encode())
                        self.wfile.flush()
                        double.hold.wait(30)
                except OSError:
                    pass
                double.ended.set()

            def log_message(self, *values):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"

    def close(self):
        self._server.shutdown()
        self._server.server_close()
