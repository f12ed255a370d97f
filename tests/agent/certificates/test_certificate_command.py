"""The command that makes certificates."""

from __future__ import annotations

import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tfscale.agent.cli import main
from tfscale.core.access.caller_role import CallerRole
from tfscale.core.access.certificate import read_certificate
from tfscale.core.cluster.cluster_spec import Tls


def files(folder: Path) -> Tls:
    return Tls(folder / "ca.pem", folder / "own.pem", folder / "own.key")


def test_hosts_and_people_get_three_files_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "tls"
    words = ["--hosts", "10.0.0.2,trainer-1=10.0.0.3", "--operators", "ann", "--observers=eve", "--out", str(out)]
    assert main(["certificates", *words, "--days", "30"]) == 0
    roles = {name: read_certificate(files(out / name), time.time()).facts for name in ("10.0.0.2", "ann", "eve")}
    assert [facts.role for facts in roles.values()] == [CallerRole.AGENT, CallerRole.OPERATOR, CallerRole.OBSERVER]
    assert all(0 < facts.end - time.time() <= 30 * 86400 for facts in roles.values())
    assert {stat.S_IMODE(path.stat().st_mode) for path in out.rglob("*.key")} == {0o600}
    said = capsys.readouterr().out
    assert f"{out / 'ann'}/  operator, until 20" in said and 'certificate = "own.pem"' in said
    names = subprocess.run(
        ["openssl", "x509", "-in", str(out / "trainer-1" / "own.pem"), "-noout", "-ext", "subjectAltName"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "DNS:trainer-1, IP Address:10.0.0.3, URI:tfscale:agent" in names


def test_nothing_is_overwritten_and_the_authority_signs_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "tls"
    assert main(["certificates", "--hosts", "a", "--out", str(out)]) == 0
    before = (out / "a" / "own.key").read_bytes()
    assert main(["certificates", "--hosts", "b,a", "--out", str(out)]) == 2
    assert "is there already, and is not overwritten" in capsys.readouterr().err
    assert (out / "a" / "own.key").read_bytes() == before and not (out / "b").exists()
    assert main(["certificates", "--hosts", "b", "--out", str(out)]) == 0
    assert (out / "b" / "ca.pem").read_bytes() == (out / "ca.pem").read_bytes()
    elsewhere = ["--ca", str(out / "ca.pem"), "--ca-key", str(out / "ca.key"), "--out", str(tmp_path / "next")]
    assert main(["certificates", "--hosts", "a", *elsewhere]) == 0
    assert (tmp_path / "next" / "a" / "ca.pem").read_bytes() == (out / "ca.pem").read_bytes()
    assert not (tmp_path / "next" / "ca.key").exists()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ((), "nobody to make a certificate for"),
        (("--hosts", "../a"), "neither the name of a host nor an IP address"),
        (("--hosts", "ca.pem"), "neither the name of a host nor an IP address"),
        (("--operators", ".."), "must be letters"),
        (("--hosts", "a", "--operators", "a"), "a is there 2 times"),
        (("--hosts", "a", "--days", "0"), "--days"),
        (("--hosts", "a", "--ca", "x"), "--ca and --ca-key"),
        (("--hosts", "a", "--ca", "/none", "--ca-key", "/none"), "/none cannot be read"),
    ],
)
def test_wrong_words_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], why: str
) -> None:
    assert main(["certificates", *words, "--out", str(tmp_path / "tls")]) == 2
    said = capsys.readouterr().err
    assert why in said and said.count("\n") == 1
    assert not (tmp_path / "tls").exists()


def test_another_key_or_no_authority_signs_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "tls"
    assert main(["certificates", "--hosts", "a", "--out", str(out)]) == 0
    for ca, key in ((out / "ca.pem", out / "a" / "own.key"), (out / "a" / "own.pem", out / "a" / "own.key")):
        words = ["--ca", str(ca), "--ca-key", str(key), "--out", str(tmp_path / "next")]
        assert main(["certificates", "--hosts", "b", *words]) == 2
    said = capsys.readouterr().err
    assert "is not the key of" in said and "is no certificate of an authority" in said


def test_an_agent_needs_no_library_for_certificates() -> None:
    program = "import sys, tfscale.agent.cli, tfscale.agent.life.daemon; print('cryptography' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
