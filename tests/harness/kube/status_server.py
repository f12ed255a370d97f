"""HTTPS server on loopback in the place of that of Kubeflow's Trainer: it keeps what is posted to it."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from certificates import Issuer

PATH = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/default/trainjobs/digits/status"


@dataclass
class StatusServer:
    """Server with what came, and with the answer to it."""

    variables: dict[str, str]
    """The environment of a pod."""
    token: Path
    answer: int = 200
    """Status of the answers; 0: none comes."""
    posts: list[tuple[str, str | None, Any]] = field(default_factory=list)
    """(path, authorization, body) of each post."""
    release: threading.Event = field(default_factory=threading.Event)

    @property
    def statuses(self) -> list[dict[str, Any]]:
        return [body["trainerStatus"] for _, _, body in self.posts]


@contextmanager
def status_server(folder: Path) -> Iterator[StatusServer]:
    """Serve until the context ends; certificate and token are in the folder."""
    own = Issuer(folder / "authority").tls("trainer")
    (token := folder / "token").write_text("first\n")

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            served.posts.append((self.path, self.headers["Authorization"], body))
            if not served.answer:
                served.release.wait(60)
                return
            self.send_response(served.answer)
            self.send_header("Location", f"{served.variables['KUBEFLOW_TRAINER_SERVER_URL']}/elsewhere")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own.certificate, own.key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    names = ("URL", "CA_CERT", "TOKEN")
    values = (f"https://localhost:{server.server_port}{PATH}", str(own.ca), str(token))
    variables = {f"KUBEFLOW_TRAINER_SERVER_{name}": value for name, value in zip(names, values, strict=True)}
    served = StatusServer(variables, token)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield served
    finally:
        served.release.set()
        server.shutdown()
        thread.join()
        server.server_close()
