"""Reports over a real Unix socket, to agents that come and go."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from local_cluster import wait_until
from report_listener import ReportListener, next_report
from tfscale.core.records.probe_status import Collective
from tfscale.core.records.profile import ProfileOrder, ProfileReport, ProfileStage
from tfscale.core.wire.framing import framed
from tfscale.trainer.probe.process.identity import Identity
from tfscale.trainer.probe.report import reporter as reporter_module
from tfscale.trainer.probe.report.reporter import Reporter
from tfscale.trainer.probe.report.sink import ProbeReport
from tfscale.trainer.probe.report.status import Status
from tfscale.trainer.probe.rows.spans import Distribution
from tfscale.trainer.probe.steps.step import Step
from tfscale.trainer.probe.steps.usual_steps import UsualSteps
from tfscale.v1 import report_pb2


class Agent:
    """Agent's side of the socket, which keeps what it reads."""

    def __init__(self, path: Path, refuse: str = "") -> None:
        self.heard: list[report_pb2.TaskReport] = []
        self._changed = threading.Condition()
        self._listener = ReportListener(path, self._hear, refuse)
        self.reply = self._listener.reply
        self.kill = self._listener.close

    def _hear(self, report: report_pb2.TaskReport) -> None:
        with self._changed:
            self.heard.append(report)
            self._changed.notify_all()

    def wait_for(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.heard) >= count, 60), self.heard


def obey(
    order: ProfileOrder,
    tell: Callable[[ProfileReport], object],
    wait: Callable[[float], bool],
) -> None:
    """Report the stages of a profile, as if one was taken."""
    tell(ProfileReport(order.number, ProfileStage.CAPTURING))
    ended = wait(order.seconds)
    stage = ProfileStage.FAILED if ended else ProfileStage.WRITTEN
    tell(ProfileReport(order.number, stage))


@pytest.fixture
def identity(tmp_path: Path) -> Identity:
    return Identity(str(tmp_path / "s"), "worker:1", generation=3, attempt=2)


NOWHERE = Collective(0, 0, None)


def steps(first: int) -> ProbeReport:
    return ProbeReport(NOWHERE, steps=[Step(first, 1.0, 0.1, 0.1, 0.1, 0.1, 0.1)])


def sequences(agent: Agent) -> list[int]:
    return [report.steps[0].sequence[0] for report in agent.heard if report.steps]


def test_hello_comes_first_and_all_is_delivered_at_the_end(identity: Identity) -> None:
    agent = Agent(Path(identity.socket))
    reporter = Reporter(identity, obey)
    for number in range(5):
        reporter.send(steps(number))
    reporter.close(timeout=60)
    agent.wait_for(6)
    hello = agent.heard[0].hello
    assert (hello.task, hello.generation, hello.attempt) == ("worker:1", 3, 2)
    assert sequences(agent) == list(range(5))
    agent.kill()


@pytest.mark.usefixtures("end_of_python")
def test_where_no_thread_starts_the_closing_delivers(identity: Identity) -> None:
    agent = Agent(Path(identity.socket))
    reporter = Reporter(identity, obey)
    reporter.send(steps(0))
    reporter.close(timeout=60)
    agent.wait_for(2)
    assert sequences(agent) == [0]
    agent.kill()


@pytest.mark.usefixtures("end_of_python")
def test_where_no_thread_starts_an_agent_that_is_silent_or_gone_holds_up_no_end(identity: Identity) -> None:
    begun = time.monotonic()
    Reporter(identity, obey).close(timeout=0.2)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(identity.socket)
        server.listen()
        Reporter(identity, obey).close(timeout=0.2)
    assert time.monotonic() - begun < 10


def test_a_later_agent_hears_what_was_kept_and_what_the_probe_is(identity: Identity) -> None:
    first = Agent(Path(identity.socket))
    reporter = Reporter(identity, obey)
    reporter.send(
        ProbeReport(NOWHERE, Status(distribution=Distribution("MirroredStrategy", replicas=2, local_replicas=2)).record)
    )
    first.wait_for(2)
    first.kill()
    second = Agent(Path(identity.socket))
    second.wait_for(1)
    assert second.heard[0].probe.strategy == "MirroredStrategy"
    reporter.send(steps(7))
    second.wait_for(2)
    assert sequences(second) == [7]
    reporter.close(timeout=60)
    second.kill()


def test_without_an_agent_the_newest_reports_are_kept(identity: Identity) -> None:
    reporter = Reporter(identity, obey, capacity=3)
    for number in range(10):
        reporter.send(steps(number))
    agent = Agent(Path(identity.socket))
    agent.wait_for(4)
    reporter.close(timeout=60)
    assert sequences(agent) == [7, 8, 9]
    assert sum(report.steps[0].lost for report in agent.heard[1:]) == 7
    agent.kill()


def test_a_process_that_has_to_wait_is_heard_once_it_trains_and_the_other_has_gone(
    identity: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reporter_module, "_WAITING_SECONDS", 0.2)
    path = Path(identity.socket)
    agent = Agent(path)
    reporter = Reporter(identity.begun(), obey)
    agent.wait_for(1)
    assert not agent.heard[0].hello.trains
    agent.reply(report_pb2.ReportReply(waits="another process of the task trains"))
    wait_until(lambda: reporter._must_wait)
    agent.kill()
    reporter.send(steps(0))
    later = Agent(path)
    later.wait_for(2)
    assert later.heard[0].hello.trains
    assert later.heard[1].steps[0].part >= identity.begun().part - 10_000
    reporter.close(timeout=60)
    later.kill()


def test_steps_after_a_wait_are_a_part_of_their_own(identity: Identity) -> None:
    first = Agent(Path(identity.socket))
    reporter = Reporter(identity.begun(), obey)
    reporter.send(steps(0))
    first.wait_for(2)
    first.reply(report_pb2.ReportReply(waits="another process of the task trains"))
    wait_until(lambda: reporter._must_wait)
    first.kill()
    reporter.send(steps(1))
    second = Agent(Path(identity.socket))
    second.wait_for(2)
    reporter.close(timeout=60)
    before, after = (agent.heard[-1].steps[0] for agent in (first, second))
    assert (before.sequence, after.sequence) == ([0], [1]) and before.part < after.part
    second.kill()


def test_a_process_that_is_refused_says_no_more(identity: Identity) -> None:
    agent = Agent(Path(identity.socket), refuse="another process reports")
    reporter = Reporter(identity, obey)
    reporter.send(steps(0))
    reporter.close(timeout=60)
    assert reporter.refused == "another process reports"
    assert agent.heard == []
    agent.kill()


def usual_steps(first: int, number: int = 1) -> ProbeReport:
    steps = UsualSteps(
        first=first,
        end=np.ones(number),
        phases=np.full((5, number), np.nan),
        bytes=np.zeros(number),
        examples=np.zeros(number),
        global_step=None,
        distribution=Distribution(),
    )
    return ProbeReport(NOWHERE, steps=steps)


@pytest.mark.parametrize("connected", [True, False])
def test_reports_come_in_their_order_however_long_they_are(identity: Identity, connected: bool) -> None:
    agent = Agent(Path(identity.socket)) if connected else None
    reporter = Reporter(identity, obey)
    if agent is not None:
        agent.wait_for(1)
    lengths = [1, 1, 5000, 1, 100_000, 1, 1, 3000] * 4
    for number, many in enumerate(lengths):
        reporter.send(steps(number) if number % 3 == 1 else usual_steps(number, many))
    agent = agent or Agent(Path(identity.socket))
    agent.wait_for(1 + len(lengths))
    assert sequences(agent) == list(range(len(lengths)))
    reporter.close(timeout=60)
    agent.kill()


def test_steps_of_reports_that_give_way_are_counted(identity: Identity) -> None:
    reporter = Reporter(identity, obey, capacity=2)
    for number in range(4):
        reporter.send(usual_steps(10 * number, 10))
    agent = Agent(Path(identity.socket))
    agent.wait_for(3)
    assert sequences(agent) == [20, 30]
    assert [report.steps[0].lost for report in agent.heard[1:]] == [10, 10]
    reporter.close(timeout=60)
    agent.kill()


def test_a_process_ends_though_its_agent_reads_later(identity: Identity) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(identity.socket)
        server.listen()
        reporter = Reporter(identity, obey)
        with server.accept()[0] as agent, agent.makefile("rb") as heard:
            agent.sendall(framed(report_pb2.ReportReply(accepted=report_pb2.Accepted()).SerializeToString()))
            for number in range(10):
                reporter.send(steps(number))
            begun = time.monotonic()
            reporter.close(timeout=30)
            assert time.monotonic() - begun < 10
            told = [report.steps[0].sequence[0] for report in iter(lambda: next_report(heard), None) if report.steps]
            assert told == list(range(10))


def order(number: int, seconds: float) -> report_pb2.ReportReply:
    return report_pb2.ReportReply(profile=report_pb2.ProfileOrder(number=number, seconds=seconds))


def stages(agent: Agent) -> list[tuple[int, int]]:
    return [(each.profile.number, each.profile.stage) for each in agent.heard if each.HasField("profile")]


def test_orders_are_obeyed_while_reports_go_on(identity: Identity) -> None:
    agent = Agent(Path(identity.socket))
    reporter = Reporter(identity, obey)
    agent.wait_for(1)
    agent.reply(order(7, 0.2))
    reporter.send(steps(1))
    agent.wait_for(4)
    assert stages(agent) == [(7, report_pb2.PROFILE_STAGE_CAPTURING), (7, report_pb2.PROFILE_STAGE_WRITTEN)]
    assert sequences(agent) == [1]
    reporter.close(timeout=60)
    agent.kill()


def test_the_end_of_the_process_ends_an_order(identity: Identity) -> None:
    agent = Agent(Path(identity.socket))
    reporter = Reporter(identity, obey)
    agent.wait_for(1)
    agent.reply(order(7, 60.0))
    agent.wait_for(2)
    reporter.close(timeout=60)
    agent.kill()


def test_another_agent_is_not_told_of_the_first_ones_order(identity: Identity) -> None:
    first = Agent(Path(identity.socket))
    reporter = Reporter(identity, obey)
    first.wait_for(1)
    first.reply(order(7, 1.0))
    first.wait_for(2)
    first.kill()
    reporter.send(steps(1))
    second = Agent(Path(identity.socket))
    second.wait_for(2)
    second.reply(order(8, 0.0))
    second.wait_for(4)
    assert {number for number, _ in stages(second)} == {8}
    reporter.close(timeout=60)
    second.kill()


def test_a_process_that_is_refused_later_says_no_more(identity: Identity) -> None:
    agent = Agent(Path(identity.socket))
    reporter = Reporter(identity, obey)
    agent.wait_for(1)
    agent.reply(report_pb2.ReportReply(refused="one of an attempt that has ended"))
    wait_until(lambda: reporter.refused == "one of an attempt that has ended")
    agent.kill()
    reporter.close(timeout=60)


def test_whoever_speaks_another_protocol_is_no_agent(identity: Identity) -> None:
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(identity.socket)
        other.listen()
        reporter = Reporter(identity, obey)
        reporter.send(steps(1))
        with other.accept()[0] as connection:
            connection.sendall(b"HTTP/1.1 400 Bad Request")
            while connection.recv(4096):
                pass
    agent = Agent(Path(identity.socket))
    agent.wait_for(2)
    reporter.close(timeout=60)
    assert sequences(agent) == [1]
    agent.kill()
