"""PEM files for tests, as `tfscale-agent certificates` makes them."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tfscale.agent.certificates.authority import Authority
from tfscale.core.access.caller_role import CallerRole
from tfscale.core.cluster.cluster_spec import Tls

LOCAL = ("localhost", "127.0.0.1")


class Issuer:
    """One authority, which signs certificates into a folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        self._authority = Authority.new(datetime.now(UTC) - timedelta(days=5))

    def tls(
        self,
        name: str,
        role: CallerRole = CallerRole.AGENT,
        hosts: Sequence[str] = LOCAL,
        *,
        begins: timedelta = timedelta(0),
        days: int = 2,
    ) -> Tls:
        """Write a certificate that begins so long from now, in place of an earlier one of the name."""
        self._authority.now = datetime.now(UTC) + begins
        made = self._authority.sign(name, role, hosts, days)
        files = Tls(*(self._folder / f"{name}.{kind}" for kind in ("ca", "pem", "key")))
        for path, content in zip(
            (files.ca, files.certificate, files.key),
            (self._authority.certificate, made.certificate, made.key),
            strict=True,
        ):
            path.write_bytes(content)
        return files

    def without_role(self, name: str) -> Tls:
        """Write a certificate of before roles, as OpenSSL makes it."""
        tls, key = self.tls(name), self._folder / "authority.key"
        key.write_bytes(self._authority.key)
        words = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc", "-days", "2"]
        words += ["-CA", str(tls.ca), "-CAkey", str(key), "-subj", f"/CN={name}"]
        words += ["-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:false"]
        words += ["-keyout", str(tls.key), "-out", str(tls.certificate)]
        subprocess.run(["openssl", *words], check=True, capture_output=True)
        return tls


def authority(folder: Path, name: str) -> Tls:
    """Make an authority and a certificate of an agent at localhost that it signed, in a folder `name`."""
    return Issuer(folder / name).tls("own")
