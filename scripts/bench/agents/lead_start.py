"""Start of the lead's agent of many hosts: its CPU until it serves, while no other agent is there and while all are."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import grpc.aio
import psutil
from local_cluster import wait_until
from loopback import free_addresses
from tfscale.v1 import agent_pb2, agent_pb2_grpc, telemetry_pb2

STANDING = 5.0
"""Seconds after the start's end in which the CPU of an agent that waits for others is measured."""


def measure(folder: Path, hosts: int, rounds: int) -> None:
    """Print a row of each kind of start, by turns in `rounds` rounds."""
    own, others = (int(address.rpartition(":")[2]) for address in free_addresses(2))
    cluster = _write(folder, hosts, own, others)
    subprocess.run([sys.executable, "-c", "import tfscale.agent.cli"], env=_environment(folder), check=True)
    costs: dict[str, list[tuple[float, float]]] = {"none is there": [], "all are there": []}
    for number in range(rounds):
        costs["none is there"].append(_start(folder / f"none-{number}", cluster))
        with _all_there(others):
            costs["all are there"].append(_start(folder / f"all-{number}", cluster))
    print(f"| of {hosts - 1} other agents | CPU until it serves | CPU of a core after that |\n| --- | --- | --- |")
    for name, seen in costs.items():
        first, after = zip(*seen, strict=True)
        spread = f"{median(first):.2f} s ({min(first):.2f} to {max(first):.2f} s)"
        print(f"| {name} | {spread} | {median(after):.1%} ({min(after):.1%} to {max(after):.1%}) |")


def _write(folder: Path, hosts: int, own: int, others: int) -> Path:
    names = [f"127.9.{number // 250}.{number % 250 + 1}" for number in range(hosts)]
    agents = [f'"worker:{number}" = "{name}:{others if number else own}"' for number, name in enumerate(names)]
    path = folder / "cluster.toml"
    path.write_text(
        "\n".join(["[cluster]", f"worker = {json.dumps([f'{name}:2222' for name in names])}", "[agents]", *agents])
    )
    return path


def _start(state: Path, cluster: Path) -> tuple[float, float]:
    """Return the seconds of CPU of a start, and what the agent takes of a core some seconds after it."""
    state.mkdir()
    flags = ["--cluster", cluster, "--task", "worker:0", "--state-dir", state, "--grace", "1"]
    command = [sys.executable, "-m", "tfscale.agent.cli", *flags, "--", "sleep", "1000"]
    environment = _environment(cluster.parent)
    with (state / "said").open("wb") as said, subprocess.Popen(command, stderr=said, env=environment) as agent:
        try:
            wait_until(lambda: b" serving " in (state / "said").read_bytes())
            first = _cpu(agent.pid)
            wait_until(lambda: b": done " in (state / "said").read_bytes())
            time.sleep(STANDING)
            before = _cpu(agent.pid)
            time.sleep(STANDING)
            return first, (_cpu(agent.pid) - before) / STANDING
        finally:
            agent.terminate()


def _environment(folder: Path) -> dict[str, str]:
    """Return the environment in which Python keeps compiled modules, as where they are installed."""
    return {**os.environ, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(folder / "compiled")}


def _cpu(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


@contextlib.contextmanager
def _all_there(port: int) -> Iterator[None]:
    """Answer as the agents of all addresses on loopback."""
    with subprocess.Popen([sys.executable, __file__, str(port)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield
        finally:
            process.terminate()


class _Anybody(agent_pb2_grpc.AgentServicer):
    """Agent of any task, which does at once as it is told."""

    async def Describe(
        self,
        request: agent_pb2.DescribeRequest,  # noqa: ARG002
        context: object,  # noqa: ARG002
    ) -> agent_pb2.Description:
        return agent_pb2.Description(generation=1)

    async def Apply(
        self,
        request: agent_pb2.ApplyRequest,
        context: object,  # noqa: ARG002
    ) -> telemetry_pb2.TaskStatus:
        running = telemetry_pb2.TASK_STATE_RUNNING
        return telemetry_pb2.TaskStatus(state=running, generation=request.generation, attempt=1)


async def _answer(port: int) -> None:
    server = grpc.aio.server()
    agent_pb2_grpc.add_AgentServicer_to_server(_Anybody(), server)
    server.add_insecure_port(f"0.0.0.0:{port}")
    await server.start()
    print("serving", flush=True)
    await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(_answer(int(sys.argv[1])))
