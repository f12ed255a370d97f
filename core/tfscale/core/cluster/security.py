"""Rule by which consoles and agents trust each other, and the gRPC servers' and channels' settings that follow.

Every side decides by the same rule, `uses_tls`: `--insecure` means plain text; else `[tls]` in the cluster file means
mutual TLS on every address; with neither, only loopback addresses are served and dialled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import grpc
import grpc.aio
from tfscale.core.cluster.cluster_spec import Address, ClusterSpec, Tls
from tfscale.core.errors import UsageError

_EVERY_CHANNEL = (
    # Agents are named by address; a proxy that is meant for the web would only stand in between.
    ("grpc.enable_http_proxy", 0),
    # A snapshot holds a minute of steps.
    ("grpc.max_receive_message_length", 64 << 20),
)

_AGENTS_CHANNEL = (
    # A restarted agent is reached again within two seconds, a host that vanished is noticed within ten.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1000),
    ("grpc.max_reconnect_backoff_ms", 2000),
    ("grpc.keepalive_time_ms", 5000),
    ("grpc.keepalive_timeout_ms", 5000),
    ("grpc.use_local_subchannel_pool", 1),
)

SERVER_OPTIONS = (
    # A port that is in use is an error.
    ("grpc.so_reuseport", 0),
    # The channels' keepalive is allowed.
    ("grpc.http2.min_ping_interval_without_data_ms", 1000),
    ("grpc.http2.max_ping_strikes", 0),
)


class SecurityError(UsageError):
    """An address that may not be used in plain text, or a certificate that cannot be read."""


def uses_tls(address: Address, spec: ClusterSpec, insecure: bool) -> bool:
    """Decide whether an agent is served and dialled at `address` with TLS.

    Raises SecurityError where neither TLS nor plain text is allowed.
    """
    if insecure:
        return False
    if spec.tls is not None:
        return True
    if not address.is_loopback:
        raise SecurityError(
            f"{address} is not a loopback address: give [tls] in the cluster file, or --insecure to go without "
            "encryption"
        )
    return False


def server_credentials(address: Address, spec: ClusterSpec, insecure: bool = False) -> grpc.ServerCredentials | None:
    """Return the credentials with which an agent serves `address`, None for plain text.

    Callers must show a certificate of the same authority. Raises SecurityError.
    """
    if not uses_tls(address, spec, insecure) or spec.tls is None:
        return None
    ca, certificate, key = _read(spec.tls)
    return grpc.ssl_server_credentials([(key, certificate)], root_certificates=ca, require_client_auth=True)


def channel_opener(
    addresses: Iterable[Address], spec: ClusterSpec, insecure: bool, options: Sequence[tuple[str, int]]
) -> Callable[[Address], grpc.aio.Channel]:
    """Return a function that opens a channel to any one of `addresses`.

    All addresses are checked and the certificates are read here, once for a thousand channels. Raises SecurityError.
    """
    everything = [*_EVERY_CHANNEL, *options]
    with_tls = [uses_tls(address, spec, insecure) for address in addresses]
    if not any(with_tls) or spec.tls is None:
        return lambda address: grpc.aio.insecure_channel(str(address), options=everything)
    ca, certificate, key = _read(spec.tls)
    credentials = grpc.ssl_channel_credentials(root_certificates=ca, private_key=key, certificate_chain=certificate)
    return lambda address: grpc.aio.secure_channel(str(address), credentials, options=everything)


def open_channel(address: Address, spec: ClusterSpec, insecure: bool = False) -> grpc.aio.Channel:
    """Open an agent's channel to another agent at `address`. Raises SecurityError."""
    return channel_opener([address], spec, insecure, _AGENTS_CHANNEL)(address)


def _read(tls: Tls) -> tuple[bytes, bytes, bytes]:
    return _pem(tls.ca, "ca"), _pem(tls.certificate, "certificate"), _pem(tls.key, "key")


def _pem(path: Path, name: str) -> bytes:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise SecurityError(f"[tls] {name}: {path} cannot be read: {error.strerror}") from error
    if b"-----BEGIN" not in data:
        raise SecurityError(f"[tls] {name}: {path} is not a PEM file")
    return data
