"""Server of a page: what it answers, and whom."""

from __future__ import annotations

import gzip
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from certificates import Issuer, authority
from loopback import free_addresses
from prometheus_client.core import Metric
from tfscale.core.access.caller_role import CallerRole
from tfscale.core.access.certificate import client_context
from tfscale.core.cluster.cluster_spec import Address, ClusterSpec, Tls, parse_address
from tfscale.core.errors import UsageError
from tfscale.core.metrics import page_server
from tfscale.core.metrics.metric_table import Families
from tfscale.core.metrics.page_address import at, page_address
from tfscale.core.metrics.page_server import PageServer

OPEN = ClusterSpec("digits", {}, {})


@dataclass
class OnePage:
    """Page with one number."""

    why: str = ""

    def collect(self) -> list[Metric]:
        families = Families()
        families.add("tfscale_steps_total", "digits", "worker:0", value=3)
        families.add("tfscale_loss", "digits", "worker:0", value=None)
        return families.metrics()

    def trouble(self) -> str:
        return self.why

    def waits(self) -> str:
        return "no agent has begun"


@contextmanager
def served(page: OnePage, spec: ClusterSpec = OPEN) -> Iterator[str]:
    """Serve a page on loopback, and yield its address."""
    address = parse_address(next(free_addresses(1)))
    with PageServer(address, page, spec, insecure=False).serving():
        yield str(address)


def got(url: str, context: ssl.SSLContext | None = None, **headers: str) -> tuple[int, str, bytes]:
    """Return status, type and body of an answer."""
    request = urllib.request.Request(url, headers={name.replace("_", "-"): value for name, value in headers.items()})
    try:
        answer = urllib.request.urlopen(request, timeout=30, context=context)
    except urllib.error.HTTPError as error:
        answer = error  # type: ignore[assignment]
    with answer:
        return answer.status, answer.headers["Content-Type"], answer.read()


def test_a_page_is_text_or_openmetrics_and_small_on_request() -> None:
    with served(OnePage()) as place:
        url = f"http://{place}/metrics"
        assert b'tfscale_steps_total{run="digits",task="worker:0"} 3.0\n' in got(url)[2]
        assert b"tfscale_loss" not in got(url)[2]
        status, kind, body = got(url, Accept="application/openmetrics-text;version=1.0.0")
        assert (status, kind.partition(";")[0]) == (200, "application/openmetrics-text")
        assert body.endswith(b"# EOF\n") and b"# TYPE tfscale_steps counter" in body
        assert gzip.decompress(got(url, Accept_Encoding="gzip")[2]) == got(url)[2]


def test_health_and_readiness_say_why_not() -> None:
    page = OnePage()
    with served(page) as place:
        assert got(f"http://{place}/healthz")[::2] == (200, b"alive\n")
        assert got(f"http://{place}/readyz")[::2] == (503, b"no agent has begun\n")
        page.why = "no frame for 5 s of worker:0"
        assert got(f"http://{place}/healthz")[::2] == (503, b"no frame for 5 s of worker:0\n")
        assert got(f"http://{place}/other")[0] == 404


def test_a_taken_port_is_one_line() -> None:
    with served(OnePage()) as place, pytest.raises(UsageError, match=f"--metrics {place}: cannot listen.*in use"):
        PageServer(parse_address(place), OnePage(), OPEN, insecure=False)


@pytest.mark.parametrize("text", ["9471", ":0", ":65536", "nine", ":", "host:", "a:b:1"])
def test_what_is_no_port_is_one_line(text: str) -> None:
    with pytest.raises(UsageError, match=r"--metrics: '.*' is no port to serve: write :9471"):
        page_address(text, "--metrics")


def test_a_port_alone_is_at_the_host_of_the_program() -> None:
    assert at(page_address(":9471", "--metrics"), "h1") == Address("h1", 9471)
    assert at(page_address("h2:9471", "--metrics"), "h1") == Address("h2", 9471)


def test_beyond_loopback_there_is_tls_or_an_error() -> None:
    with pytest.raises(UsageError, match=r"192\.0\.2\.1:9471 is not a loopback address: give \[tls\]"):
        PageServer(Address("192.0.2.1", 9471), OnePage(), OPEN, insecure=False)


def test_a_silent_connection_takes_no_place_from_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_server, "_HANDSHAKE", 0.2)
    monkeypatch.setattr(page_server._Handler, "timeout", 0.2)
    with served(OnePage()) as place:
        address = parse_address(place)
        silent = [socket.create_connection((address.host, address.port)) for _ in range(16)]
        for each in silent:
            each.settimeout(30)
            assert each.recv(1) == b""
        assert got(f"http://{place}/healthz")[0] == 200
        for each in silent:
            each.close()


@pytest.fixture
def beyond(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[tuple[Issuer, str]]:
    """Serve a page with TLS, as on an address beyond loopback, which no machine here has for sure."""
    monkeypatch.setattr(Address, "is_loopback", False)
    issuer = Issuer(tmp_path / "own")
    with served(OnePage(), replace(OPEN, tls=issuer.tls("host"))) as place:
        yield issuer, f"https://{place}/metrics"


def test_with_tls_an_observer_gets_the_page(beyond: tuple[Issuer, str]) -> None:
    issuer, url = beyond
    observer = issuer.tls("ann", CallerRole.OBSERVER, ())
    assert got(url, client_context(observer))[0] == 200


def test_with_tls_a_certificate_without_a_role_is_refused(beyond: tuple[Issuer, str]) -> None:
    issuer, url = beyond
    status, _, body = got(url, client_context(issuer.without_role("bob")))
    assert status == 403 and b"the page needs the role observer, which the certificate of bob does not have" in body


def test_with_tls_a_stranger_has_no_connection(beyond: tuple[Issuer, str], tmp_path: Path) -> None:
    issuer, url = beyond
    ours: Tls = issuer.tls("none", CallerRole.OBSERVER, ())
    other = authority(tmp_path, "other")
    for files in (replace(other, ca=ours.ca), None):
        context = ssl.create_default_context(cafile=str(ours.ca))
        if files is not None:
            context.load_cert_chain(files.certificate, files.key)
        with pytest.raises((OSError, urllib.error.URLError)):
            got(url, context)


def test_a_renewed_certificate_is_shown_to_the_next_caller(
    beyond: tuple[Issuer, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    issuer, url = beyond
    monkeypatch.setattr(page_server, "_RENEWED", 0.0)
    observer = client_context(issuer.tls("ann", CallerRole.OBSERVER, ()))
    assert got(url, observer)[0] == 200
    issuer.tls("host", hosts=("192.0.2.7",))
    with pytest.raises(urllib.error.URLError, match=r"not valid for '127\.0\.0\.1'"):
        got(url, observer)
