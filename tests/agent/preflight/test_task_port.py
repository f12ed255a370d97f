"""Ports that are free, taken, and listened on for a moment."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace

import pytest
from loopback import free_addresses
from running_agents import W0, W1
from tfscale.agent.cluster.gang import GangError
from tfscale.agent.cluster.journal import Journal
from tfscale.agent.cluster.local_task import LocalTask
from tfscale.agent.preflight.task_port import Sink, port_problem, served_port
from tfscale.agent.settings import AgentSettings
from tfscale.agent.supervision.shim_process import TaskSpec
from tfscale.agent.supervision.supervisor import Supervisor
from tfscale.agent.telemetry.probe_reports import ProbeReports
from tfscale.core.cluster.cluster_spec import ClusterSpec, parse_address
from tfscale.core.cluster.task import Role, Task
from tfscale.core.records.task_status import Reason


@pytest.fixture
def port() -> int:
    (address,) = free_addresses(1)
    return parse_address(address).port


def test_a_port_that_is_taken_names_who_has_taken_it(port: int) -> None:
    assert port_problem(port) == ""
    program = f"import socket, sys; s = socket.create_server(('127.0.0.1', {port})); print('up', flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=-1, stdout=-1) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == b"up\n"
        assert re.match(rf"taken by process {holder.pid} \(\S*python", port_problem(port))
        holder.kill()


def test_a_sink_takes_all_and_frees_its_port_at_once(port: int) -> None:
    sink = Sink(port)
    assert port_problem(port).startswith(f"taken by process {os.getpid()} (")
    with (
        socket.create_connection(("127.0.0.1", port)) as first,
        socket.create_connection(("127.0.0.1", port)) as second,
    ):
        first.sendall(bytes(8 << 20))
        first.shutdown(socket.SHUT_WR)
        assert first.recv(1) == b""
        sink.close()
        assert second.recv(1) == b""
    assert port_problem(port) == ""


def test_only_tasks_to_which_others_connect_serve_a_port(make_cluster: Callable[[int], ClusterSpec]) -> None:
    two, one = make_cluster(2), make_cluster(1)
    assert served_port(two, W1) == two.tasks[W1].port
    assert served_port(one, W0) is None
    evaluator = Task(Role.EVALUATOR, 0)
    assert served_port(replace(two, tasks={**two.tasks, evaluator: two.tasks[W1]}), evaluator) is None


async def test_a_start_is_refused_while_another_process_has_the_port(
    settings_of: Callable[..., AgentSettings], spec: TaskSpec
) -> None:
    settings = settings_of(W1)
    settings.files.folder.mkdir(parents=True)
    supervisor = Supervisor(spec, lambda _: None)
    task = LocalTask(settings, Journal(settings.files.journal), supervisor, ProbeReports(W1))
    await task.adopt()
    address = settings.cluster.tasks[W1]
    sink = Sink(address.port)
    with pytest.raises(GangError, match=rf"worker:1: its port {address} is taken by process {os.getpid()} \("):
        await task.check(1, is_start=True)
    await task.check(1, is_start=False)
    sink.close()
    await task.check(1, is_start=True)
    await task.run(1, Reason("test"))
    sink = Sink(address.port)
    await task.check(2, is_start=True)  # the task lives: the port is its own matter
    sink.close()
    await supervisor.stop("the test is over")
