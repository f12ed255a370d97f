"""Certificate of this side: read from the files of `[tls]`, and checked before it is used.

Python's `ssl` reads a certificate only in a handshake. So a handshake is held in memory, between this side and itself:
OpenSSL then compares key, authority and purpose by its own rules, and no further library is needed.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfscale.core.access.caller_role import CallerRole, role_of
from tfscale.core.cluster.cluster_spec import Tls
from tfscale.core.errors import UsageError
from tfscale.core.text import bounded

NO_CHECK_TIME = 0x200000
"""OpenSSL's X509_V_FLAG_NO_CHECK_TIME, without a name in Python: dates are compared here, for a sentence about them."""
TOLD_BEFORE = 14 * 86_400.0
"""Seconds before a certificate's end from which on its end is reported."""
_MOST_NAME = 64
_READINGS = 3
"""Attempts to read the three files: a renewal may replace a file during a reading."""


class SecurityError(UsageError):
    """An address that may not be used in plain text, or a certificate that cannot be used."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """Facts about one certificate."""

    name: str
    """Common name, else the first name of its subjectAltName."""
    role: CallerRole | None
    begin: float
    """Unix seconds from which the certificate is valid."""
    end: float
    """Unix seconds at which the certificate expires."""

    def why_not(self, now: float) -> str:
        """Return why the certificate cannot be used at this time, empty if it can."""
        if now >= self.end:
            return f"expired on {day(self.end)}: renew it"
        return f"is not valid before {day(self.begin)}: compare the clocks" if now < self.begin else ""

    def ends_soon(self, now: float) -> bool:
        """Return whether the end of the certificate is so near that it is reported."""
        return now >= self.end - TOLD_BEFORE


@dataclass(frozen=True, slots=True)
class PemFiles:
    """Contents of the files of `[tls]`, and the facts in the certificate."""

    ca: bytes
    certificate: bytes
    key: bytes
    facts: Certificate


def day(at: float) -> str:
    """Return Unix seconds as a date in UTC, as certificates have them."""
    return time.strftime("%Y-%m-%d", time.gmtime(at))


def read_certificate(tls: Tls, now: float) -> PemFiles:
    """Return the files of this side's certificate. Raises SecurityError if they are not valid now."""
    for _ in range(_READINGS):
        contents = _contents(tls)
        facts = _examined(tls)
        if _contents(tls) == contents:
            if why := facts.why_not(now):
                raise SecurityError(f"[tls] certificate: {tls.certificate} {why}")
            return PemFiles(*contents, facts)
    raise SecurityError(f"[tls] certificate: {tls.certificate} is being written")


def facts_of(decoded: dict[str, Any]) -> Certificate:
    """Return the facts in a certificate as Python's `ssl` decodes it."""
    names = [value for part in decoded.get("subject", ()) for key, value in part if key == "commonName"]
    others = decoded.get("subjectAltName", ())
    return Certificate(
        bounded(next(iter([*names, *(value for _, value in others)]), "without a name"), _MOST_NAME),
        role_of(value for kind, value in others if kind == "URI"),
        ssl.cert_time_to_seconds(decoded["notBefore"]),
        ssl.cert_time_to_seconds(decoded["notAfter"]),
    )


def client_context(tls: Tls) -> ssl.SSLContext:
    """Return the settings with which this side calls. Raises SecurityError where the files do not fit each other."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # As gRPC: an authority may itself be signed by one that is not given.
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    _load(context, tls)
    return context


def server_context(tls: Tls) -> ssl.SSLContext:
    """Return the settings with which this side is called, by callers with a certificate of the same authority.

    Raises SecurityError where the files do not fit each other.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = ssl.CERT_REQUIRED
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    _load(context, tls)
    return context


def _load(context: ssl.SSLContext, tls: Tls) -> None:
    try:
        context.load_verify_locations(tls.ca)
    except (ssl.SSLError, OSError):
        raise SecurityError(f"[tls] ca: {tls.ca} has no certificate") from None
    try:
        context.load_cert_chain(tls.certificate, tls.key, password="")  # or OpenSSL would ask at the terminal
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise SecurityError(f"[tls] key: {tls.key} is not the key of {tls.certificate}") from None
        raise SecurityError(
            f"[tls] certificate: {tls.certificate} or its key {tls.key} is damaged or encrypted"
        ) from None
    except OSError as error:
        raise SecurityError(f"[tls] certificate: {tls.certificate} cannot be read: {error.strerror}") from None


def _examined(tls: Tls) -> Certificate:
    """Return the facts of this side's certificate, by a handshake of this side with itself. Raises SecurityError."""
    calling, called = client_context(tls), server_context(tls)
    calling.check_hostname, calling.verify_mode = False, ssl.CERT_NONE
    called.verify_flags |= NO_CHECK_TIME
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = (calling.wrap_bio(back, there), called.wrap_bio(there, back, server_side=True))
    try:
        _shake_hands(sides)
    except ssl.SSLCertVerificationError as error:
        why = bounded(error.verify_message, 2 * _MOST_NAME)
        raise SecurityError(
            f"[tls] certificate: {tls.certificate} is not of the authority in {tls.ca}: {why}"
        ) from None
    except ssl.SSLError as error:
        raise SecurityError(f"[tls] certificate: {tls.certificate} cannot be used: {error.reason}") from None
    decoded = sides[1].getpeercert()
    assert decoded
    return facts_of(decoded)


def _shake_hands(sides: Iterable[ssl.SSLObject]) -> None:
    waiting = list(sides)
    while waiting:
        for side in tuple(waiting):
            try:
                side.do_handshake()
                waiting.remove(side)
            except ssl.SSLWantReadError:
                pass


def _contents(tls: Tls) -> tuple[bytes, bytes, bytes]:
    return _pem(tls.ca, "ca"), _pem(tls.certificate, "certificate"), _pem(tls.key, "key")


def _pem(path: Path, name: str) -> bytes:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise SecurityError(f"[tls] {name}: {path} cannot be read: {error.strerror}") from error
    if b"-----BEGIN" not in data:
        raise SecurityError(f"[tls] {name}: {path} is not a PEM file")
    return data
