"""A worker that is slow until it is restarted: real agents with real tasks, and a console that carries out the policy.

The steps are reported by the test, over the sockets on which the tasks' probes would report.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from phase_simulation import Noise, Simulation, frame
from report_connection import Connection, connected
from running_agents import W1, agent, runs, status_when
from tfscale.agent.cluster.journal import Journal
from tfscale.agent.settings import AgentSettings
from tfscale.console.analysis.restarts import restart_watch, step_rate, worth_restarting
from tfscale.console.engine.engine import Engine
from tfscale.console.engine.events import Event, PolicyTold
from tfscale.console.engine.model import Snapshot
from tfscale.console.engine.state_factory import states
from tfscale.console.engine.straggler_policy import StragglerPolicy
from tfscale.console.sources.live import LiveSource
from tfscale.console.sources.simulation.step_phases import Slow
from tfscale.console.transport.channels import Channels
from tfscale.console.transport.commands import AgentCommands
from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.cluster.recovery_policy import OnStraggler, RecoveryPolicy, RestartPolicy
from tfscale.core.cluster.task import Role, Task
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.records.task_status import TaskState
from tfscale.core.wire.convert import message_of
from tfscale.v1 import report_pb2, telemetry_pb2

LASTS = 7.0
KNOWN = 40.0
"""Seconds of steps that are reported at once, as if they were made before."""


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worth_restarting, "LASTS", LASTS)
    monkeypatch.setattr(restart_watch, "WARM_UP", 0.0)
    monkeypatch.setattr(restart_watch, "_MEASURED", 1.0)
    monkeypatch.setattr(step_rate, "LEAST_BLOCKS", 5)


class Listener:
    """Listener that keeps what is told of restarts."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.restarts: asyncio.Queue[Diagnosis] = asyncio.Queue()

    def event_folded(self, event: Event) -> None:
        if isinstance(event, PolicyTold):
            self.told.append(event.message)

    def snapshot_taken(self, snapshot: Snapshot) -> None:
        for change in snapshot.changes:
            if change.kind == "restart":
                self.restarts.put_nowait(change)


@asynccontextmanager
async def console(spec: ClusterSpec) -> AsyncIterator[Listener]:
    """Run a console over real gRPC; its own cluster file says nothing of recovery."""
    channels = Channels(replace(spec, recovery=None), insecure=False)
    source, listener = LiveSource(channels), Listener()
    policy = StragglerPolicy(channels.spec, AgentCommands(channels), source.now, channels.why_no_order)
    engine = Engine(source, states(channels.spec), reaction=policy)
    running = asyncio.create_task(engine.run(listener))
    try:
        yield listener
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await channels.close()


@asynccontextmanager
async def training(
    settings: Mapping[Task, AgentSettings], generation: int, slow: tuple[Slow, ...] = ()
) -> AsyncIterator[None]:
    """Report the steps of all tasks in a generation as their probes would, some seconds of them at once."""
    async with AsyncExitStack() as stack:
        connections = []
        for each in settings.values():
            path = Path(Journal(each.files.journal).entry.socket or "")
            connections.append(await stack.enter_async_context(connected(path)))
        reporting = asyncio.create_task(_report(connections, list(settings), generation, slow))
        try:
            yield
        finally:
            reporting.cancel()
            await asyncio.gather(reporting, return_exceptions=True)


async def _report(connections: list[Connection], tasks: list[Task], generation: int, slow: tuple[Slow, ...]) -> None:
    ends, phases = Simulation(len(tasks), 20.0, 200.0, Noise(0.02, spikes=0.0), slow, generation).steps()
    begun, low = time.time() - (KNOWN if generation == 1 else 0.0), 0
    hello = {"schema_version": 1, "generation": generation, "attempt": 1, "pid": 1}
    while True:
        high = int(np.searchsorted(ends, time.time() - begun))
        for worker, (connection, task) in enumerate(zip(connections, tasks, strict=True)):
            told = frame(worker, 0.0, ends + begun, phases, low, high)
            steps = [replace(each, generation=generation, attempt=1) for each in told.steps]
            report = report_pb2.TaskReport(
                hello=report_pb2.Hello(task=str(task), **hello) if low == 0 else None,
                probe=telemetry_pb2.ProbeStatus(
                    state=telemetry_pb2.PROBE_STATE_MEASURING, strategy="MultiWorkerMirroredStrategy",
                    replicas=len(tasks), examples_per_step=96, checkpoint=time.time(),
                ),
                steps=[message_of(telemetry_pb2.StepBatch, each) for each in steps if len(each.sequence)],
            )  # fmt: skip
            connection.say(report)
        low = high
        await asyncio.sleep(0.5)


@pytest.fixture
def workers(
    make_cluster: Callable[[int], ClusterSpec], make_settings: Callable[..., AgentSettings]
) -> Callable[..., dict[Task, AgentSettings]]:
    """Return the settings of three workers by a policy."""

    def make(on_straggler: OnStraggler, **policy: Any) -> dict[Task, AgentSettings]:
        recovery = RecoveryPolicy(dict.fromkeys(Role, RestartPolicy.NEVER), on_straggler=on_straggler, **policy)
        spec = replace(make_cluster(3), recovery=recovery)
        return {task: make_settings(spec, task) for task in spec.tasks}

    return make


async def test_a_worker_that_became_slow_is_restarted_by_the_policy_and_its_gain_measured(
    workers: Callable[..., dict[Task, AgentSettings]],
) -> None:
    settings = workers(OnStraggler.RESTART)
    spec = settings[W1].cluster
    async with AsyncExitStack() as stack:
        for each in settings.values():
            await stack.enter_async_context(agent(each))
        for each in settings.values():
            await runs(each)
        listener = await stack.enter_async_context(console(spec))
        async with training(settings, 1, (Slow(1, 2.5, begin=20.0),)):
            anew = lambda status: status.state is TaskState.RUNNING and status.generation == 2  # noqa: E731
            status = await status_when(settings[W1], anew)
        # Of the time that it takes by itself compute is the larger part, and 2.5 times as long.
        found = re.fullmatch(
            r"on_straggler: worker:1 2\.\dx slower in compute, the cluster loses 5\d%; expected gain 1\d\d%, "
            r"some \d+ steps repeated, restart 1 of 10 within 1 h",
            status.reason,
        )
        assert found is not None, status.reason
        anew_all = [await status_when(each, anew) for each in settings.values()]
        assert {each.restarted_for for each in anew_all} == {"worker:1"}
        async with training(settings, 2), asyncio.timeout(60):
            restart = await listener.restarts.get()
    assert restart.evidence["gained"] == pytest.approx(restart.evidence["expected"], abs=0.4)
    assert restart.sentence.startswith("restart of 3 workers gained 1")
    measured = worth_restarting.by_policy(restart)
    assert measured is not None and (measured.worker, measured.was_worth_it) == ("worker:1", True)
    assert listener.told == []
    assert Journal(settings[spec.lead].files.journal).entry.counts.slow == ("worker:1",)
