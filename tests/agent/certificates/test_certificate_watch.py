"""The agent's own certificate while it serves: read anew, kept when the new one is wrong, told before its end."""

from __future__ import annotations

import asyncio
import logging
import re
import ssl
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from certificates import Issuer
from life.placed_cluster import seat
from report_connection import connected
from running_agents import W0, agent, frame_when, runs
from tfscale.agent.certificates import certificate_watch
from tfscale.agent.certificates.certificate_watch import CertificateWatch
from tfscale.agent.cluster.journal import Journal
from tfscale.agent.life.daemon import Daemon
from tfscale.agent.settings import AgentSettings
from tfscale.core.access import certificate
from tfscale.core.access.certificate import day
from tfscale.core.access.kept_certificates import KeptCertificates
from tfscale.core.cluster.cluster_spec import Address, Tls
from tfscale.v1 import report_pb2, telemetry_pb2


@pytest.fixture
def issuer(tmp_path: Path) -> Issuer:
    return Issuer(tmp_path / "own")


def with_tls(settings: AgentSettings, tls: Tls) -> AgentSettings:
    return replace(settings, cluster=replace(settings.cluster, tls=tls))


async def test_an_agent_that_serves_shows_its_new_certificate(
    settings_of: Callable[..., AgentSettings], issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(certificate_watch, "LOOK_EVERY", 0.0)
    settings = with_tls(settings_of(W0), issuer.tls("agent", days=30))

    async def shown() -> str:
        return await asyncio.to_thread(ssl.get_server_certificate, (settings.listen.host, settings.listen.port))

    async with agent(settings), asyncio.timeout(60):
        await runs(settings)
        before = await shown()
        issuer.tls("agent", days=60)
        while await shown() == before:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        await runs(settings)


async def test_other_seats_and_voters_are_shown_the_new_certificate(
    settings_of: Callable[..., AgentSettings], issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(certificate_watch, "LOOK_EVERY", 0.0)
    settings = with_tls(settings_of(W0), issuer.tls("agent", days=30))
    cluster = replace(settings.cluster, spares={Address("127.0.0.9", 1): Address("127.0.0.9", 2)})
    settings = replace(settings, cluster=cluster, seat=cluster.agents[W0])
    async with seat(settings) as lives, asyncio.timeout(60):
        while not lives:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        daemon = lives[0]
        assert isinstance(daemon, Daemon) and daemon._parts.voting is not None
        opener = daemon._parts.voting.opener
        assert opener.version == 0
        issuer.tls("agent", days=60)
        while opener.version == 0:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        assert daemon._parts.certificates is opener.certificates


async def test_a_certificate_that_ends_soon_is_told_in_the_frames(
    settings_of: Callable[..., AgentSettings], issuer: Issuer
) -> None:
    tls = issuer.tls("agent", days=13)
    async with agent(settings := with_tls(settings_of(W0), tls)):
        pid = (await runs(settings)).pid
        hello = report_pb2.Hello(schema_version=1, task="worker:0", generation=1, attempt=1, pid=pid)
        probe = telemetry_pb2.ProbeStatus(state=telemetry_pb2.PROBE_STATE_MEASURING)
        async with connected(Path(Journal(settings.files.journal).entry.socket)) as process:
            process.say(report_pb2.TaskReport(hello=hello, probe=probe))
            frame = await frame_when(settings, lambda frame: frame.HasField("probe") and frame.probe.warnings)
    end = KeptCertificates(tls).facts.end
    assert frame.probe.warnings[0] == f"the certificate of its agent expires on {day(end)}: renew it before"


async def test_the_log_has_a_certificates_end_once_a_day_and_a_wrong_new_one_once(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "tfscale")
    monkeypatch.setattr(certificate_watch, "LOOK_EVERY", 0.0)
    watch = CertificateWatch(KeptCertificates(tls := issuer.tls("agent", days=13)))

    async def look(times: int) -> list[str]:
        for _ in range(times):
            watch.look()
            assert watch._reading is not None
            await watch._reading
        said = [record.getMessage() for record in caplog.records]
        caplog.clear()
        return said

    assert [line[:37] for line in await look(3)] == ["the certificate of its agent expires "]
    issuer.tls("agent", begins=timedelta(days=-3), days=1)
    (said,) = await look(3)
    assert said.startswith("the new certificate is not used, and the old one stays: ") and "expired on" in said
    issuer.tls("agent", days=15)
    assert [line[:22] for line in await look(3)] == ["a new certificate is u"] and watch.troubles == ()
    monkeypatch.setattr(certificate, "TOLD_BEFORE", 16 * 86_400.0)
    monkeypatch.setattr(certificate_watch, "_WARN_EVERY", 0.0)
    assert len(await look(2)) == 2
    assert tls.key.exists()
    watch.stop()


def test_without_tls_there_is_nothing_to_watch() -> None:
    watch = CertificateWatch(None)
    watch.look()
    watch.stop()
    assert watch.troubles == ()


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda own: own.tls("a", begins=timedelta(days=-3), days=1), "a.pem expired on"),
        (lambda own: own.tls("a", begins=timedelta(days=2)), "a.pem is not valid before"),
        (lambda own: replace(own.tls("a"), key=own.tls("b").key), "b.key is not the key of"),
        (lambda own: own.without_role("a"), 'a.pem is that of no role, and tfscale:agent is needed: .*roles = "off"'),
    ],
    ids=["expired", "early", "key", "role"],
)
@pytest.mark.usefixtures("source_roots")
def test_an_agent_with_a_wrong_certificate_does_not_start(
    issuer: Issuer, tmp_path: Path, make: Callable[[Issuer], Tls], why: str
) -> None:
    tls, file, started = make(issuer), tmp_path / "cluster.toml", tmp_path / "started"
    paths = [f'{name} = "{getattr(tls, name)}"' for name in ("ca", "certificate", "key")]
    file.write_text("\n".join(['[cluster]\nworker = ["127.0.0.1:1"]\n[tls]', *paths]))
    words = ["--cluster", str(file), "--state-dir", str(tmp_path / "state"), "--", "touch", str(started)]
    command = [sys.executable, "-m", "tfscale.agent.cli", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert re.search(why, done.stderr) and not started.exists()
