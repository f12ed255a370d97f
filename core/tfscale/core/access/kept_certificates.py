"""Certificate of this side in memory, read anew when its files have changed."""

from __future__ import annotations

import contextlib
import os
import time

import grpc
from tfscale.core.access.caller_role import CallerRole
from tfscale.core.access.certificate import Certificate, PemFiles, SecurityError, read_certificate
from tfscale.core.cluster.cluster_spec import Tls

_Stamp = tuple[tuple[int, int, int], ...]


class KeptCertificates:
    """Files of `[tls]` as last found right. Raises SecurityError where the first reading finds them wrong.

    `needs` is the role that the certificate must have for its owner to be of use to others, None for any.
    """

    def __init__(self, tls: Tls, needs: CallerRole | None = None) -> None:
        self.tls = tls
        self._needs = needs
        self.version = 0
        """Number of replacements of the certificates: a channel with an older number is opened anew."""
        self._stamp = _stamp(tls)
        self._pem = self._read()

    @property
    def facts(self) -> Certificate:
        return self._pem.facts

    def refresh(self) -> bool:
        """Read the files if they have changed, and return whether they are replaced. May block: call it in a thread.

        Raises SecurityError, once for each change, where the new files are wrong; the old ones stay in use.
        """
        stamp = _stamp(self.tls)
        if stamp == self._stamp:
            return False
        try:
            pem = self._read()
        except SecurityError:
            # What is wrong now may be right in a moment without a change, as a clock; each change is told once.
            self._stamp = stamp
            raise
        self._stamp = stamp
        self._pem = pem
        self.version += 1
        return True

    def channel_credentials(self) -> grpc.ChannelCredentials:
        pem = self._pem
        return grpc.ssl_channel_credentials(pem.ca, pem.key, pem.certificate)

    def server_credentials(self) -> grpc.ServerCredentials:
        """Return credentials of a server that shows each new caller the newest certificate.

        Callers must show a certificate of the same authority.
        """
        shown = self.version

        def newer() -> grpc.ServerCertificateConfiguration | None:
            nonlocal shown
            # gRPC 1.85 dies of a violation of memory where it is given one for each of some hundred handshakes, and
            # these come to nothing.
            if shown == self.version:
                return None
            shown = self.version
            return self._server_configuration()

        return grpc.dynamic_ssl_server_credentials(
            self._server_configuration(),
            newer,  # type: ignore[arg-type]  # None stands for what it was, which the stubs do not say
            require_client_authentication=True,
        )

    def _read(self) -> PemFiles:
        pem = read_certificate(self.tls, time.time())
        if self._needs is not None and (pem.facts.role or 0) < self._needs:
            role = "no role" if pem.facts.role is None else str(pem.facts.role)
            raise SecurityError(
                f"[tls] certificate: {self.tls.certificate} is that of {role}, and {self._needs.uri} is needed: make "
                'one with tfscale-agent certificates, or let every certificate give orders with roles = "off" in [tls]'
            )
        return pem

    def _server_configuration(self) -> grpc.ServerCertificateConfiguration:
        pem = self._pem
        return grpc.ssl_server_certificate_configuration([(pem.key, pem.certificate)], pem.ca)


def _stamp(tls: Tls) -> _Stamp:
    """Return the numbers of a file's state that change when the file is replaced or written."""
    found = []
    for path in (tls.ca, tls.certificate, tls.key):
        status = None
        with contextlib.suppress(OSError):
            status = os.stat(path)  # noqa: PTH116
        found.append((0, 0, 0) if status is None else (status.st_ino, status.st_mtime_ns, status.st_size))
    return tuple(found)
