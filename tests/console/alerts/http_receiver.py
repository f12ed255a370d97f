"""HTTP servers on loopback that receive alerts: one that answers as told, one that never answers."""

from __future__ import annotations

import contextlib
import http.server
import json
import socket
import threading
from collections.abc import Iterator
from typing import Any


class Receiver:
    """Server that remembers what is posted, and answers with the next of `statuses`, then with 200."""

    def __init__(self, *statuses: int) -> None:
        self.got: list[dict[str, Any]] = []
        self.statuses = list(statuses)
        self.port = 0


@contextlib.contextmanager
def receiver(*statuses: int) -> Iterator[Receiver]:
    """Serve within the block."""
    state = Receiver(*statuses)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            state.got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(state.statuses.pop(0) if state.statuses else 200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Write no log."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.port = server.server_port
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextlib.contextmanager
def silent_port() -> Iterator[int]:
    """Yield a port that takes connections, and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def closed_port() -> int:
    """Return a port at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
