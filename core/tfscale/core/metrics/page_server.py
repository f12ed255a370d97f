"""Server of a page for Prometheus: `/metrics`, `/healthz` and `/readyz`, in threads beside the program's event loop.

It is for who may look: on loopback in plain text, elsewhere by TLS for a certificate of at least an observer, or in
plain text for all where the user says so.
"""

from __future__ import annotations

import contextlib
import gzip
import logging
import os
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol

from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder, gzip_accepted
from prometheus_client.samples import Sample
from tfscale.core.access.caller_role import CallerRole
from tfscale.core.access.certificate import SecurityError, facts_of, server_context
from tfscale.core.access.kept_certificates import KeptCertificates
from tfscale.core.cluster.cluster_spec import Address, ClusterSpec
from tfscale.core.cluster.security import certificates_of, uses_tls
from tfscale.core.errors import UsageError

_logger = logging.getLogger(__name__)
_MOST = 16
"""Connections at one time: each has a thread. A Prometheus keeps one."""
_IDLE = 75.0
"""Seconds after which a connection without a request is closed. A Prometheus that comes each minute keeps its own."""
_HANDSHAKE = 10.0
_RENEWED = 10.0
"""Seconds from one look at the certificate's files to the next, as agents look."""
_LEVEL = 1
"""Level of gzip: of a page of a thousand tasks level 9 takes 44 ms instead of 5, for a sixth less."""
_OPEN, _END = "application/openmetrics-text", b"# EOF\n"
_TEXT = "text/plain; charset=utf-8"


class Page(Protocol):
    """Page of a program, read in other threads than the program's own."""

    def collect(self) -> Iterable[Metric]:
        """Return the metrics of this moment."""

    def trouble(self) -> str:
        """Return why the program is not alive, empty while it is."""

    def waits(self) -> str:
        """Return why the page says nothing of the training so far, empty once it does."""


class PageText:
    """Text of a page in the format of its newest reader. A metric that is as it was is not written anew.

    Of a page of 1,000 tasks that are half of the samples: states, generations, GPUs.
    """

    def __init__(self) -> None:
        self._kind = ""
        self._written: dict[str, tuple[list[Sample], bytes]] = {}
        """Samples of each metric, and the text of them."""

    def of(self, page: Page, accepted: str) -> tuple[str, bytes]:
        """Return the type of the text, and the text; `accepted` is the reader's header `Accept`."""
        encode, kind = choose_encoder(accepted)
        written = self._written if kind == self._kind else {}
        now = {each.name: _written(each, encode, written) for each in page.collect()}
        self._kind, self._written = kind, now
        return kind, b"".join([*(text for _, text in now.values()), _END * kind.startswith(_OPEN)])


def _written(
    metric: Metric, encode: Callable[[Any], bytes], before: Mapping[str, tuple[list[Sample], bytes]]
) -> tuple[list[Sample], bytes]:
    known = before.get(metric.name)
    if known is not None and known[0] == metric.samples:
        return known
    return metric.samples, encode(_OneMetric(metric)).removesuffix(_END)


class _OneMetric:
    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterator[Metric]:
        yield self._metric


class PageServer(ThreadingHTTPServer):
    """Server of one page. It holds its port from construction on. Raises UsageError where it cannot have it."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, address: Address, page: Page, spec: ClusterSpec, *, insecure: bool) -> None:
        self.page, self.text = page, PageText()
        self._places = threading.BoundedSemaphore(_MOST)
        has_tls = not address.is_loopback and uses_tls(address, spec, insecure)
        self._tls = _Tls(certificates_of(spec, insecure)) if has_tls else None
        self._needs_role = spec.tls is not None and spec.tls.has_roles
        try:
            family, _, _, _, place = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0]
            self.address_family = family
            super().__init__((str(place[0]), address.port), _Handler)
        except OSError as error:
            why = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
            raise UsageError(f"--metrics {address}: cannot listen there ({why}): give another port") from None

    @contextlib.contextmanager
    def serving(self) -> Iterator[None]:
        """Serve in a thread until the block ends."""
        thread = threading.Thread(target=self.serve_forever, name="metrics page", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self.shutdown()
            self.server_close()

    def server_bind(self) -> None:
        """Bind; the name of this host, for which the base class would ask, may take seconds."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)

    def verify_request(self, request: Any, client_address: Any) -> bool:  # noqa: ARG002
        return self._places.acquire(blocking=False)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Answer the requests of one connection, in its own thread."""
        request.settimeout(_HANDSHAKE)
        if self._tls is None:
            _Handler(request, client_address, self)
            return
        with self._tls.context().wrap_socket(request, server_side=True) as secured:
            _Handler(secured, client_address, self)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002
        _logger.debug("a connection to the page of metrics failed", exc_info=True)

    def refusal(self, connection: socket.socket) -> str:
        """Return why the caller may not have the page, empty where it may."""
        if not isinstance(connection, ssl.SSLSocket) or not self._needs_role:
            return ""
        decoded = connection.getpeercert()
        caller = facts_of(decoded) if decoded else None
        if caller is not None and (caller.role or 0) >= CallerRole.OBSERVER:
            return ""
        name = "a caller without a certificate" if caller is None else caller.name
        return (
            f"the page needs the role {CallerRole.OBSERVER}, which the certificate of {name} does not have: make one "
            "with tfscale-agent certificates --observers"
        )


class _Tls:
    """Settings of TLS with the newest certificate."""

    def __init__(self, certificates: KeptCertificates | None) -> None:
        assert certificates is not None
        self._certificates = certificates
        self._lock = threading.Lock()
        self._made = (certificates.version, server_context(certificates.tls))
        self._looked = time.monotonic()

    def context(self) -> ssl.SSLContext:
        with self._lock:
            if time.monotonic() - self._looked > _RENEWED:
                self._looked = time.monotonic()
                self._renew()
            return self._made[1]

    def _renew(self) -> None:
        try:
            if self._certificates.refresh():
                self._made = (self._certificates.version, server_context(self._certificates.tls))
        except SecurityError as error:
            _logger.warning("the page of metrics keeps its certificate: %s", error)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "tfscale", ""
    timeout = _IDLE
    server: PageServer

    def do_GET(self) -> None:
        page = self.server.page
        match self.path.partition("?")[0]:
            case _ if why := self.server.refusal(self.connection):
                self._answer(HTTPStatus.FORBIDDEN, why)
            case "/metrics":
                self._send(HTTPStatus.OK, *self.server.text.of(page, self.headers.get("Accept", "")))
            case "/healthz":
                why = page.trouble()
                self._answer(HTTPStatus.SERVICE_UNAVAILABLE if why else HTTPStatus.OK, why or "alive")
            case "/readyz":
                why = page.trouble() or page.waits()
                self._answer(HTTPStatus.SERVICE_UNAVAILABLE if why else HTTPStatus.OK, why or "ready")
            case _:
                self._answer(HTTPStatus.NOT_FOUND, "there are /metrics, /healthz and /readyz")

    def _answer(self, status: HTTPStatus, line: str) -> None:
        self._send(status, _TEXT, f"{line}\n".encode())

    def _send(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        if gzip_accepted(self.headers.get("Accept-Encoding", "")):
            body = gzip.compress(body, _LEVEL)
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        _logger.debug(format, *args)
