"""Hosts of which nothing is heard while a task begins: whose restart would be in vain without leaving them out."""

from __future__ import annotations

from pathlib import Path

from report_connection import connected, serving
from running_agents import W0, W1, until
from tfscale.agent.cluster.peers import SILENT
from tfscale.agent.recovery.absent_peer import AbsentPeer
from tfscale.agent.telemetry.absent_probe import AbsentProbe
from tfscale.agent.telemetry.probe_reports import ProbeReports
from tfscale.core.cluster.cluster_spec import Address, ClusterSpec
from tfscale.core.cluster.task import Task
from tfscale.v1 import report_pb2, telemetry_pb2

EVALUATOR = Task.parse("evaluator:0")


async def test_a_silent_host_is_reported_while_its_peer_begins_and_not_once_that_makes_steps(tmp_path: Path) -> None:
    hosts = {task: Address(f"host-{number}", 7070) for number, task in enumerate((W0, W1, EVALUATOR))}
    reports, silences = ProbeReports(W0), {W1: 0.0, EVALUATOR: 100.0}
    peer = AbsentPeer(ClusterSpec("test", hosts, hosts), W0, lambda: silences, reports, AbsentProbe())
    reports.begin(2, 1)
    hello = report_pb2.Hello(schema_version=1, task="worker:0", generation=2, attempt=1, pid=1)
    async with serving(tmp_path / "socket", reports), connected(tmp_path / "socket") as process:
        silences[W1] = 100.0
        assert peer.report(2, 5.0) is None, "a program of which nobody knows whether it trains"
        waiting = telemetry_pb2.ProbeStatus(state=telemetry_pb2.PROBE_STATE_WAITING)
        process.say(report_pb2.TaskReport(hello=hello, probe=waiting))
        await until(lambda: reports.probe)
        silences[W1] = SILENT + 4.0
        assert peer.report(2, 5.0) is None
        silences[W1] = SILENT + 6.0
        report = peer.report(2, 5.0)
        assert report is not None and (report.task, report.key, report.unstarted) == ("worker:1", (2, 0), 6.0)
        silences[W1] = 0.0
        assert peer.report(2, 5.0) is None, "the evaluator is nobody's peer"
        silences[W1] = 100.0
        steps = telemetry_pb2.StepBatch(subject="worker:0", reporter="worker:0", sequence=[0], end=[1.0])
        process.say(report_pb2.TaskReport(hello=hello, steps=[steps]))
        await until(lambda: reports.steps)
        assert peer.report(2, 5.0) is None
