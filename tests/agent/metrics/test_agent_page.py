"""Page of real agents with real tasks, and of reports as a probe sends them."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import urllib.request
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from fake_nvml import FakeGpu, FakeNvml
from loopback import free_addresses
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from report_connection import said
from running_agents import W0, W1, agents_process, until
from tfscale.agent.life.daemon import Daemon
from tfscale.agent.life.own_process import OwnProcess
from tfscale.agent.metrics import agent_page
from tfscale.agent.metrics.agent_page import AgentPage
from tfscale.agent.settings import AgentSettings
from tfscale.agent.supervision.task_environment import report_socket
from tfscale.agent.telemetry.gpu_collector import GpuCollector
from tfscale.core.metrics.task_metrics import STALE
from tfscale.v1 import report_pb2, telemetry_pb2

SettingsOf = Callable[..., AgentSettings]
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def samples(text: str) -> Samples:
    families = text_string_to_metric_families(text)
    return {(each.name, frozenset(each.labels.items())): each.value for family in families for each in family.samples}


def said_at(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as answer:
        return str(answer.read().decode())


def value(page: Samples, name: str, **labels: str) -> float | None:
    return page.get((name, frozenset({"run": "test", "task": "worker:0", **labels}.items())))


def of(page: AgentPage) -> Samples:
    return samples(generate_latest(page).decode())  # type: ignore[arg-type]


@asynccontextmanager
async def shown(settings: AgentSettings, process: OwnProcess) -> AsyncIterator[AgentPage]:
    """Run an agent until the block ends, and yield its page once the task runs."""
    settings.files.folder.mkdir(parents=True, exist_ok=True)
    daemon, page = Daemon(settings, process), process.page
    assert page is not None
    running = asyncio.create_task(daemon.run())
    try:
        await until(lambda: value(of(page), "tfscale_task_state", state="running") == 1)
        yield page
    finally:
        daemon.leave()
        async with asyncio.timeout(60):
            await running


def report(pid: int, rows: int, attempt: int = 1, **collective: int) -> report_pb2.TaskReport:
    """Return a report with steps of a replica, too, and with one step whose input is not known."""
    hello = report_pb2.Hello(schema_version=1, task="worker:0", generation=1, attempt=attempt, pid=pid, trains=True)
    columns = {"sequence": range(rows), "end": [1.0] * rows, "compute": [0.5] * rows}
    columns["input"] = [0.25] * (rows - 1) + [float("nan")]
    batches = [
        telemetry_pb2.StepBatch(generation=1, attempt=attempt, reporter="worker:0", subject=subject, lost=2, **columns)
        for subject in ("worker:0", "worker:0/replica:0")
    ]
    return report_pb2.TaskReport(
        hello=hello,
        probe=telemetry_pb2.ProbeStatus(state=telemetry_pb2.PROBE_STATE_MEASURING),
        collective=telemetry_pb2.Collective(**collective),
        steps=batches,
    )


async def test_what_the_probe_reports_is_counted_once(settings_of: SettingsOf) -> None:
    settings = settings_of(W0)
    async with shown(settings, OwnProcess(page=AgentPage())) as page:
        assert value(of(page), "tfscale_probe_state", state="unknown") == 1
        assert value(of(page), "tfscale_steps_total") is None
        await said(Path(report_socket(settings)), report(os.getpid(), 4, entered=4, left=3))
        await until(lambda: value(of(page), "tfscale_steps_total") == 4)
        found = of(page)
        assert value(found, "tfscale_step_phase_seconds_total", phase="compute") == 2.0
        assert value(found, "tfscale_step_phase_seconds_total", phase="input") == 0.75
        assert value(found, "tfscale_step_phase_seconds_total", phase="update") is None
        assert value(found, "tfscale_steps_lost_total") == 2
        assert value(found, "tfscale_collectives_entered_total") == 4
        assert value(found, "tfscale_collectives_left_total") == 3
        assert value(found, "tfscale_probe_state", state="measuring") == 1


async def test_an_agent_that_is_stuck_shows_nothing_and_says_so(
    settings_of: SettingsOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with shown(settings_of(W0), OwnProcess(page=AgentPage())) as page:
        assert (page.trouble(), page.waits()) == ("", "")
        now = agent_page.time.monotonic() + STALE + 1
        monkeypatch.setattr(agent_page.time, "monotonic", lambda: now)
        assert page.trouble() == "no frame for 5 s of worker:0"
        assert not any(name.startswith("tfscale_task") for name, _ in of(page))
        monkeypatch.undo()
    assert page.waits() and not any(name.startswith("tfscale_task") for name, _ in of(page))


async def test_a_task_has_its_own_share_of_the_gpus(settings_of: SettingsOf) -> None:
    settings = settings_of(W0, gpus=("0", "1"), process_agents=tuple(settings_of(W0).cluster.agents.values())[:2])
    nvml = FakeNvml(FakeGpu(), FakeGpu())
    process = OwnProcess(make_collector=lambda: GpuCollector(nvml), page=AgentPage())
    async with shown(settings, process) as page:
        await until(lambda: value(of(page), "tfscale_task_gpu_info", UUID="GPU-fake-0", gpu="0"))
        assert value(of(page), "tfscale_task_gpu_info", UUID="GPU-fake-1", gpu="1") is None
        energy = {labels: joules for (name, labels), joules in of(page).items() if "_energy_joules" in name}
        assert energy == {frozenset({"run": "test", "UUID": "GPU-fake-0"}.items()): 7.2e6}


@pytest.mark.usefixtures("source_roots")
async def test_the_agents_of_a_process_share_a_page(settings_of: SettingsOf) -> None:
    (place,) = free_addresses(1)
    both = [settings_of(W0), settings_of(W1)]
    with agents_process(both, "--metrics", place):
        found: list[Samples] = []

        def has_both() -> bool:
            try:
                found.append(samples(said_at(f"http://{place}/metrics")))
            except OSError:
                return False
            running = [value(found[-1], "tfscale_task_state", task=str(each), state="running") for each in (W0, W1)]
            return running == [1, 1]

        await until(has_both)
        assert said_at(f"http://{place}/readyz") == "ready\n"
    assert found[-1]["process_resident_memory_bytes", frozenset()] > 1e6


@pytest.mark.usefixtures("source_roots")
def test_a_port_that_is_taken_is_one_line_and_starts_no_task(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        words = ["--metrics", place, "--state-dir", str(tmp_path), "--", sys.executable, "-c", "print('up')"]
        done = subprocess.run([sys.executable, "-m", "tfscale.agent.cli", *words], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert f"--metrics {place}: cannot listen there (Address already in use): give another port" in done.stderr
