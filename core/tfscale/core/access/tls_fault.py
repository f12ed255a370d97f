"""Fault of a TLS connection, by its name. gRPC keeps it to itself, so a second connection asks for it."""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
from typing import Any

from tfscale.core.access.certificate import SecurityError, client_context, read_certificate
from tfscale.core.cluster.cluster_spec import Address, Tls

PATIENCE = 2.0
"""Seconds for each step of the connection: to connect, to shake hands, to be refused."""
_ITS_CERTIFICATE = {
    9: "its certificate is not valid yet: compare the clocks",
    10: "its certificate has expired: renew it there",
    26: "its certificate is not made for an agent: make it with tfscale-agent certificates --hosts",
    62: "its certificate names another host: make one for {host}",
    64: "its certificate names another host: make one for {host}",
}
"""Words by OpenSSL's number of the error (X509_V_ERR_...); for any other number: no trusted authority has signed it."""
_NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST", "UNKNOWN_PROTOCOL", "PACKET_LENGTH_TOO_LONG")
"""Reasons that OpenSSL gives where the other side's bytes are not TLS."""
_HOST = ("DNS", "IP Address")
"""Kinds of names of a host in a certificate, as Python's `ssl` calls them."""
_NOT_TLS = ("refused", "timed out", "timeout", "unreachable", "no route", "resolution", "deadline")
"""Words in gRPC's details of a failed connection that did not get as far as TLS."""


def could_be_tls(details: str) -> bool:
    """Return whether a connection that failed with these details of gRPC may have got as far as TLS."""
    return not any(word in details.lower() for word in _NOT_TLS)


def certified_name(address: Address, tls: Tls) -> str:
    """Return the name in the certificate of who answers at an address, if the authority has signed it.

    Empty where `address.host` will do, and where nobody answers whose certificate is right. It takes up to PATIENCE
    seconds, so call it in a thread.
    """
    with contextlib.suppress(OSError, SecurityError):
        context = client_context(tls)
        context.check_hostname = False
        context.set_alpn_protocols(["h2"])
        with (
            socket.create_connection((address.host, address.port), PATIENCE) as connection,
            context.wrap_socket(connection) as secure,
        ):
            decoded: dict[str, Any] = secure.getpeercert() or {}
        names = [name for kind, name in decoded.get("subjectAltName", ()) if kind in _HOST]
        return "" if address.host in names else next(iter(names), "")
    return ""


def tls_fault(address: Address, tls: Tls | None, patience: float = PATIENCE, *, path: str = "", name: str = "") -> str:
    """Return why TLS ends connections to an agent, as words that follow the agent's address; empty if TLS ends none.

    `tls` is None where this side speaks plain text; `path` is a Unix socket that leads to the agent, `name` what its
    certificate must name, where that is not the host. It takes up to three times `patience`, so call it in a thread.
    """
    try:
        with _connected(address, path, patience) as connection:
            return _asked_for_tls(connection) if tls is None else _refused(connection, name or address.host, tls)
    except (OSError, SecurityError) as error:
        return str(error) if isinstance(error, SecurityError) else ""


def _connected(address: Address, path: str, patience: float) -> socket.socket:
    if not path:
        return socket.create_connection((address.host, address.port), patience)
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(patience)
    try:
        connection.connect(path)
    except OSError:
        connection.close()
        raise
    return connection


def _asked_for_tls(connection: socket.socket) -> str:
    """Return the fault where the other side speaks TLS, and this side does not."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        context.wrap_socket(connection).close()
    except ssl.SSLError as error:
        if "ALERT" not in (error.reason or ""):
            return ""
    return "speaks TLS: give [tls] in the cluster file, or with --agent also --ca, --certificate and --key"


def _refused(connection: socket.socket, host: str, tls: Tls) -> str:
    context = client_context(tls)
    context.set_alpn_protocols(["h2"])  # gRPC refuses who does not
    try:
        with context.wrap_socket(connection, server_hostname=host) as secure:
            return "" if _is_welcome(secure) else _why_not_this_side(tls)
    except ssl.SSLCertVerificationError as error:
        foreign = f"its certificate is of another authority than {tls.ca}: give both one [tls] ca"
        return _ITS_CERTIFICATE.get(error.verify_code, foreign).format(host=host)
    except ssl.SSLError as error:
        if any(word in (error.reason or "") for word in _NO_TLS):
            return "speaks plain text: give both [tls], or both --insecure"
        return _why_not_this_side(tls) if "ALERT" in (error.reason or "") else ""


def _is_welcome(secure: ssl.SSLSocket) -> bool:
    """Decide whether the other side goes on after the handshake: TLS 1.3 refuses a certificate only after it.

    gRPC first sends its settings; to a side that it does not trust it closes the connection without a word.
    """
    try:
        return bool(secure.recv(1))
    except TimeoutError:
        return True
    except OSError:
        return False


def _why_not_this_side(tls: Tls) -> str:
    try:
        read_certificate(tls, time.time())
    except SecurityError as error:
        return f"refuses this side's certificate: {error}"
    return f"ends the connection as if it did not trust this side's certificate: compare its [tls] ca with {tls.ca}"
