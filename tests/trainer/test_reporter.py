"""Reports over a real Unix socket, to agents that come and go."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
import pytest
from tfscale.trainer.probe.identity import Identity
from tfscale.trainer.probe.report import Collective, Report
from tfscale.trainer.probe.reporter import Reporter
from tfscale.trainer.probe.spans import Program
from tfscale.trainer.probe.status import Status
from tfscale.trainer.probe.steps import Step
from tfscale.v1 import report_pb2


class Agent:
    """Listens as an agent does, and keeps what it hears."""

    def __init__(self, socket: Path, refuse: str = "") -> None:
        self.heard: list[report_pb2.TaskReport] = []
        self.changed = threading.Condition()
        self._refuse = refuse
        handler = grpc.stream_unary_rpc_method_handler(
            self._report, report_pb2.TaskReport.FromString, report_pb2.ReportReply.SerializeToString
        )
        self._server = grpc.server(futures.ThreadPoolExecutor(2))
        services = grpc.method_handlers_generic_handler("tfscale.v1.Reports", {"Report": handler})
        self._server.add_generic_rpc_handlers((services,))
        self._server.add_insecure_port(f"unix:{socket}")
        self._server.start()

    def _report(self, reports: Iterator[report_pb2.TaskReport], context: Any) -> report_pb2.ReportReply:
        if self._refuse:
            context.abort(grpc.StatusCode.ALREADY_EXISTS, self._refuse)
        for report in reports:
            with self.changed:
                self.heard.append(report)
                self.changed.notify_all()
        return report_pb2.ReportReply()

    def wait_for(self, count: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.heard) >= count, 10), self.heard

    def kill(self) -> None:
        self._server.stop(0).wait()


@pytest.fixture
def identity(tmp_path: Path) -> Identity:
    return Identity(str(tmp_path / "s"), "worker:1", generation=3, attempt=2)


NOWHERE = Collective(0, 0, None)


def steps(first: int) -> Report:
    return Report(NOWHERE, steps=[Step(first, 1.0, 0.1, 0.1, 0.1, 0.1, 0.1)])


def sequences(agent: Agent) -> list[int]:
    return [report.steps[0].sequence[0] for report in agent.heard if report.steps]


def test_hello_comes_first_and_all_is_delivered_at_the_end(identity: Identity) -> None:
    agent = Agent(Path(identity.socket))
    reporter = Reporter(identity)
    for number in range(5):
        reporter.send(steps(number))
    reporter.close(timeout=5)
    hello = agent.heard[0].hello
    assert (hello.task, hello.generation, hello.attempt) == ("worker:1", 3, 2)
    assert sequences(agent) == list(range(5))
    agent.kill()


def test_a_later_agent_hears_what_was_kept_and_what_the_probe_is(identity: Identity) -> None:
    first = Agent(Path(identity.socket))
    reporter = Reporter(identity)
    reporter.send(Report(NOWHERE, Status(program=Program("MirroredStrategy", replicas=2, local_replicas=2))))
    first.wait_for(2)
    first.kill()
    second = Agent(Path(identity.socket))
    second.wait_for(1)
    assert second.heard[0].probe.strategy == "MirroredStrategy"
    reporter.send(steps(7))
    second.wait_for(2)
    assert sequences(second) == [7]
    reporter.close(timeout=5)
    second.kill()


def test_without_an_agent_the_newest_reports_are_kept(identity: Identity) -> None:
    reporter = Reporter(identity, capacity=3)
    for number in range(10):
        reporter.send(steps(number))
    agent = Agent(Path(identity.socket))
    agent.wait_for(4)
    reporter.close(timeout=5)
    assert sequences(agent) == [7, 8, 9]
    assert sum(report.steps[0].lost for report in agent.heard[1:]) == 7
    agent.kill()


def test_a_process_that_is_refused_says_no_more(identity: Identity) -> None:
    agent = Agent(Path(identity.socket), refuse="another process reports")
    reporter = Reporter(identity)
    reporter.send(steps(0))
    reporter.close(timeout=5)
    assert reporter.refused == "another process reports"
    assert agent.heard == []
    agent.kill()
