"""PEM files for tests, made by openssl."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tfscale.core.cluster.cluster_spec import Tls


def authority(folder: Path, name: str) -> Tls:
    """Make an authority and a certificate for localhost that it signed, in a folder `name`."""
    base = folder / name
    base.mkdir()
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    _openssl(base, "req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=ca", "-days", "2")
    _openssl(base, "req", *key, "-keyout", "key.pem", "-out", "request.pem", "-subj", "/CN=localhost")
    (base / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1")
    sign = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "names", "-days", "2"]
    _openssl(base, "x509", "-req", "-in", "request.pem", *sign, "-out", "cert.pem")
    return Tls(base / "ca.pem", base / "cert.pem", base / "key.pem")


def _openssl(folder: Path, *words: str) -> None:
    subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)
