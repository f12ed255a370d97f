"""How consoles and agents trust each other: mutual TLS from the cluster file, plain text on loopback or when told so.

All sides follow one rule: `--insecure` means plain text; `[tls]` in the cluster file means TLS on every address;
without either only loopback addresses are served and dialled.
"""

from __future__ import annotations

from pathlib import Path

import grpc
import grpc.aio
from tfscale.core.cluster import Address, ClusterSpec, Tls
from tfscale.core.errors import UsageError

_CHANNEL_OPTIONS = [
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1000),
    ("grpc.max_reconnect_backoff_ms", 2000),
    ("grpc.keepalive_time_ms", 5000),
    ("grpc.keepalive_timeout_ms", 5000),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.max_receive_message_length", 64 << 20),
]
"""Agents come back within moments, a vanished host must show within seconds, a snapshot holds a minute of steps."""

SERVER_OPTIONS = [
    ("grpc.so_reuseport", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 1000),
    ("grpc.http2.max_ping_strikes", 0),
]
"""A busy port is an error, and the channels' keepalive is welcome."""


class CredentialsError(UsageError):
    """An address that may not be used in plain text, or a certificate that cannot be read."""


def uses_tls(address: Address, spec: ClusterSpec, insecure: bool) -> bool:
    """Whether an agent's address is spoken to over TLS. Raises CredentialsError where neither is allowed."""
    if insecure:
        return False
    if spec.tls is not None:
        return True
    if not address.is_loopback:
        raise CredentialsError(
            f"{address} is beyond loopback: give [tls] in the cluster file, or --insecure to go without encryption"
        )
    return False


def server_credentials(address: Address, spec: ClusterSpec, insecure: bool = False) -> grpc.ServerCredentials | None:
    """What an agent serves `address` with, None for plain text; callers must show a certificate of the same authority.

    Raises CredentialsError.
    """
    if not uses_tls(address, spec, insecure) or spec.tls is None:
        return None
    ca, certificate, key = _read(spec.tls)
    return grpc.ssl_server_credentials([(key, certificate)], root_certificates=ca, require_client_auth=True)


def open_channel(address: Address, spec: ClusterSpec, insecure: bool = False) -> grpc.aio.Channel:
    """A channel to the agent at `address`. Raises CredentialsError."""
    if not uses_tls(address, spec, insecure) or spec.tls is None:
        return grpc.aio.insecure_channel(str(address), options=_CHANNEL_OPTIONS)
    ca, certificate, key = _read(spec.tls)
    credentials = grpc.ssl_channel_credentials(root_certificates=ca, private_key=key, certificate_chain=certificate)
    return grpc.aio.secure_channel(str(address), credentials, options=_CHANNEL_OPTIONS)


def _read(tls: Tls) -> tuple[bytes, bytes, bytes]:
    return _pem(tls.ca, "ca"), _pem(tls.certificate, "certificate"), _pem(tls.key, "key")


def _pem(path: Path, name: str) -> bytes:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise CredentialsError(f"[tls] {name}: {path} cannot be read: {error.strerror}") from error
    if b"-----BEGIN" not in data:
        raise CredentialsError(f"[tls] {name}: {path} is not a PEM file")
    return data
