"""Certificates of this side: what they say, and those that cannot be used."""

from __future__ import annotations

import subprocess
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from certificates import Issuer
from tfscale.core.access.caller_role import CallerRole, role_of
from tfscale.core.access.certificate import SecurityError, read_certificate
from tfscale.core.cluster.cluster_spec import Tls


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Issuer:
    return Issuer(tmp_path_factory.mktemp("pki") / "own")


def test_name_role_and_end_are_read(issuer: Issuer) -> None:
    for role, hosts in ((CallerRole.AGENT, ["localhost"]), (CallerRole.OBSERVER, [])):
        facts = read_certificate(issuer.tls("one", role, hosts, days=3), time.time()).facts
        assert (facts.name, facts.role) == ("one", role)
        assert 3 * 86400 - 60 < facts.end - time.time() < 3 * 86400 + 60


def test_a_certificate_that_openssl_has_made_without_a_role_has_none(tmp_path: Path) -> None:
    words = "req -x509 -newkey rsa:2048 -noenc -days 2 -subj /CN=old -keyout own.key -out own.pem"
    subprocess.run(["openssl", *words.split()], cwd=tmp_path, check=True, capture_output=True)
    tls = Tls(tmp_path / "own.pem", tmp_path / "own.pem", tmp_path / "own.key")
    assert read_certificate(tls, time.time()).facts.role is None


@pytest.mark.parametrize(("begins", "why"), [(-3, "expired on"), (3, "is not valid before")], ids=["ended", "early"])
def test_a_certificate_out_of_its_time_cannot_be_used(issuer: Issuer, begins: int, why: str) -> None:
    tls = issuer.tls("late", begins=timedelta(days=begins), days=1)
    with pytest.raises(SecurityError, match=rf"\[tls\] certificate: .*late.pem {why} \d\d\d\d-\d\d-\d\d: "):
        read_certificate(tls, time.time())


def test_files_that_do_not_fit_each_other_are_named(issuer: Issuer, tmp_path: Path) -> None:
    own, other = issuer.tls("own"), issuer.tls("other")
    with pytest.raises(SecurityError, match=r"\[tls\] key: .*other.key is not the key of .*own.pem"):
        read_certificate(replace(own, key=other.key), time.time())
    with pytest.raises(SecurityError, match=r"own.pem is not of the authority in .*foreign.ca"):
        read_certificate(replace(own, ca=Issuer(tmp_path / "x").tls("foreign").ca), time.time())
    key = tmp_path / "encrypted.key"
    words = ["openssl", "pkey", "-in", str(own.key), "-aes128", "-passout", "pass:secret", "-out", str(key)]
    subprocess.run(words, check=True, capture_output=True)
    with pytest.raises(SecurityError, match="damaged or encrypted"):
        read_certificate(replace(own, key=key), time.time())
    own.certificate.write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    with pytest.raises(SecurityError, match="damaged or encrypted"):
        read_certificate(own, time.time())


def test_the_highest_role_of_a_certificate_counts() -> None:
    assert role_of(["tfscale:observer", "https://a.example", "tfscale:operator"]) is CallerRole.OPERATOR
    assert role_of(["tfscale:root", "TFSCALE:AGENT", ""]) is None
