"""Addresses of TPUs that do not resolve or do not answer, found out within seconds and not after minutes of retries."""

from __future__ import annotations

import os
import socket
import threading

from tfscale.trainer.compat.listings.erratum import Erratum

_PATIENCE = 3.0
"""Seconds for a name to resolve, or for a connection; both take milliseconds where there is a TPU."""
_METADATA = "metadata.google.internal"
_VARIABLES = ("GCE_METADATA_HOST", "GCE_METADATA_IP")
"""Variables that name another host than TensorFlow's default."""


def check(tpu: str | None) -> None:
    """Raise Erratum where TensorFlow could not reach the TPU of this name, or at this address, `grpc://host:port`."""
    if not tpu or tpu == "local":
        return
    if tpu.startswith("grpc://"):
        _connect(tpu)
    elif not any(os.environ.get(name) for name in _VARIABLES) and not _resolves(_METADATA):
        raise Erratum(f"the name {tpu!r} cannot be looked up: {_METADATA} does not resolve outside of Google's cloud")


def _connect(tpu: str) -> None:
    host, _, port = tpu.removeprefix("grpc://").partition(":")
    try:
        socket.create_connection((host, int(port or 8470)), timeout=_PATIENCE).close()
    except (OSError, ValueError) as error:
        raise Erratum(f"{tpu} does not answer ({error})") from None


def _resolves(host: str) -> bool:
    """Return whether a name resolves in time; a lookup has no time limit, so a thread makes it."""
    found: list[object] = []

    def ask() -> None:
        try:
            found.extend(socket.getaddrinfo(host, 80))
        except OSError:
            return

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(_PATIENCE)
    return bool(found)
