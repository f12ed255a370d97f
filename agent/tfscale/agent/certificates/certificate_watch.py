"""Watch over the agent's own certificate: it is read anew when its files change, and announced before its end."""

from __future__ import annotations

import asyncio
import logging
import time

from tfscale.agent.file_thread import DiskHangs, FileThread
from tfscale.core.access.certificate import SecurityError, day
from tfscale.core.access.kept_certificates import KeptCertificates

_logger = logging.getLogger(__name__)
LOOK_EVERY = 10.0
"""Seconds between two looks at the files."""
_WARN_EVERY = 86_400.0


class CertificateWatch:
    """Certificate of an agent that serves for months. `certificates` is None where it serves in plain text."""

    def __init__(self, certificates: KeptCertificates | None) -> None:
        self._certificates = certificates
        self._files = FileThread()
        self._reading: asyncio.Task[None] | None = None
        self._looked = time.monotonic()
        self._warned: float | None = None
        """Monotonic time at which the log last had it that the certificate ends."""

    def look(self) -> None:
        """Look whether the files have changed, and report a certificate that ends soon. Called each second."""
        if self._certificates is None:
            return
        now = time.monotonic()
        if now - self._looked >= LOOK_EVERY and (self._reading is None or self._reading.done()):
            self._looked = now
            self._reading = asyncio.create_task(self._refresh(self._certificates))
        if self.troubles and (self._warned is None or now - self._warned >= _WARN_EVERY):
            self._warned = now
            _logger.warning("%s", self.troubles[0])

    def stop(self) -> None:
        if self._reading is not None:
            self._reading.cancel()

    @property
    def troubles(self) -> tuple[str, ...]:
        """Sentence on a certificate that ends soon, which stays the same until that day."""
        if self._certificates is None or not self._certificates.facts.ends_soon(time.time()):
            return ()
        end = self._certificates.facts.end
        if time.time() >= end:
            return (f"the certificate of its agent expired on {day(end)}, and nobody new can connect: renew it",)
        return (f"the certificate of its agent expires on {day(end)}: renew it before",)

    async def _refresh(self, certificates: KeptCertificates) -> None:
        try:
            if await self._files.call(certificates.refresh):
                self._warned = None
                _logger.info("a new certificate is used, which expires on %s", day(certificates.facts.end))
        except SecurityError as error:
            _logger.error("the new certificate is not used, and the old one stays: %s", error)
        except DiskHangs as error:
            _logger.debug("the certificate cannot be looked at: %s", error)
