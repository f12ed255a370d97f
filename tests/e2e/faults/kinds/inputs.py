"""Random inputs to every parser, to the task's socket and to the server of a living agent."""

from __future__ import annotations

import asyncio
import json
import random
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc.aio
from tfscale.agent import wire as agent_wire
from tfscale.agent.cluster.journal import Journal
from tfscale.agent.supervision.shim_state import ShimState
from tfscale.console.wire import calls, frames
from tfscale.core.cluster.file.cluster_file import load_cluster
from tfscale.core.cluster.local.agent_token import TOKEN_KEY, tokens_of
from tfscale.core.errors import TfscaleError
from tfscale.core.wire.fields import WireError
from tfscale.core.wire.framing import framed
from tfscale.v1 import agent_pb2, report_pb2, telemetry_pb2

from faults import orders
from faults.fault import RUNS, Expectation, Fault, Setup, Unexpected
from faults.mutation import inputs, mutated
from faults.trial import Trial

W0 = "worker:0"
_SEED = 39
NOBODY = Setup(starts=False, has_console=False)
CLEAR = Expectation("each is read, or refused with a clear error")
_STATE = {
    "version": 1, "boot": "b", "shim_pid": 1, "shim_started": 2, "generation": 3, "attempt": 1, "argv": ["python"],
    "directory": "/", "task_pid": 5, "task_started": 6, "started": 1.5, "ended": 2.5, "code": 0, "requested": False,
}  # fmt: skip
_JOURNAL = {
    "version": 1, "generation": 3, "task_generation": 3, "attempt": 1, "socket": "/s", "drained": False,
    "ended_by": None, "commanded": 2, "boot": "b", "steady": 9.5,
    "counts": {
        "budgets": [{
            "name": "worker:0", "restarts": [3.5], "newest": [3.5], "fruitless": 1, "gave_up": "", "generation": 3,
            "reached": {"checkpoint": 1.5, "step": 9},
        }],
        "hosts": {"a": {"ages": [3.5], "generation": 2}}, "slow": ["worker:1"],
    },
    "intent": {"verb": "restart", "tasks": ["worker:0"], "generation": 3, "starting": True, "reason": "r"},
}  # fmt: skip
_CLUSTER = b"""
name = "run"
[cluster]
chief = ["10.0.0.1:2222"]
worker = ["10.0.0.2:2222", "10.0.0.3:2222"]
ps = ["[::1]:2222"]
[agents]
"worker:0" = "10.0.0.2:7071"
[program]
directory = "/tmp"
environment = { A = "b" }
[recovery]
policy = { worker = "OnFailure" }
max_restarts = 3
period = "1h"
backoff = "2s"
"""
_STATUS = telemetry_pb2.TaskStatus(state=2, generation=3, attempt=1, pid=9, started=1.5, reason="because")
_STEPS = telemetry_pb2.StepBatch(subject=W0, reporter=W0, sequence=[1, 2, 3], end=[1.0, 2.0, 3.0])
_FRAME = telemetry_pb2.Frame(sequence=4, at=5.5, status=_STATUS, steps=[_STEPS])


def _read_all(right: bytes, read: Callable[[bytes], object], refusals: tuple[type[Exception], ...]) -> str:
    """Let a parser read all inputs. Raises Unexpected for any other error than a refusal."""
    numbers, refused = random.Random(_SEED), 0
    for number in range(inputs()):
        data = mutated(numbers, right)
        try:
            read(data)
        except refusals:
            refused += 1
        except Exception as error:
            raise Unexpected(f"input {number} {data[:120]!r}: {type(error).__name__}: {error}") from error
    return f"{inputs()} inputs, {refused} refused"


def _from_file(path: Path, read: Callable[[Path], object]) -> Callable[[bytes], object]:
    def read_bytes(data: bytes) -> object:
        path.write_bytes(data)
        return read(path)

    return read_bytes


def _cluster_file(trial: Trial) -> str:
    path = trial.folder / "random.toml"
    document = _from_file(trial.folder / "random.json", load_cluster)
    right = json.dumps({"cluster": {"worker": ["a:1", "b:2"]}, "agents": {"worker:0": "c:3"}}).encode()
    told = _read_all(_CLUSTER, _from_file(path, load_cluster), (TfscaleError,))
    return f"TOML: {told}; JSON: {_read_all(right, document, (TfscaleError,))}"


def _state(_: Trial) -> str:
    return _read_all(json.dumps(_STATE).encode(), ShimState.from_json, ())


def _journal(trial: Trial) -> str:
    read = _from_file(trial.folder / "journal", Journal)
    return _read_all(json.dumps(_JOURNAL).encode(), read, (TfscaleError,))


def _report(_: Trial) -> str:
    right = report_pb2.TaskReport(steps=[_STEPS], hello=report_pb2.Hello(schema_version=1, task=W0)).SerializeToString()
    return _read_all(right, agent_wire.read_report, (WireError,))


def _frame(_: Trial) -> str:
    return _read_all(_FRAME.SerializeToString(), frames.frame, (ValueError,))


def _reply(_: Trial) -> str:
    right = agent_pb2.WatchReply(
        schema_version=1,
        snapshot=agent_pb2.Snapshot(description=agent_pb2.Description(run="r", task=W0), recent=[_FRAME]),
    )
    return _read_all(right.SerializeToString(), calls.reply, (ValueError,))


def _socket(trial: Trial) -> str:
    """Send random reports to the agent's socket, as a process of the task could."""
    path = json.loads(trial.path(W0, "agent.json").read_text())["socket"]
    right = report_pb2.TaskReport(
        hello=report_pb2.Hello(schema_version=1, task=W0, generation=1, attempt=1, pid=trial.pid(W0)), steps=[_STEPS]
    ).SerializeToString()
    numbers, sent, number = random.Random(_SEED), 0, max(1, inputs() // 10)
    while sent < number:
        with socket.socket(socket.AF_UNIX) as process:
            process.settimeout(30)
            try:
                process.connect(path)
                for _ in range(20):
                    sent += 1
                    data = mutated(numbers, right)
                    process.sendall(framed(data) if numbers.random() < 0.9 else data)
            except OSError:
                continue
    return f"{sent} inputs"


def _server(trial: Trial) -> str:
    """Send random messages to every method of the agent, with its token."""
    return orders.run(_send_all(trial))


async def _send_all(trial: Trial) -> str:
    address = trial.spec.agents[trial.spec.lead]
    token = [(TOKEN_KEY, tokens_of(address)[0])]
    to = orders.identity(trial.spec, W0)
    rights: dict[str, Any] = {
        "Describe": agent_pb2.DescribeRequest(to=to),
        "Watch": agent_pb2.WatchRequest(schema_version=1, to=to),
        # Neither task nor generation is there: an input that is right by chance would be carried out.
        "Restart": agent_pb2.TasksRequest(tasks=["worker:77"], expected_generation=1 << 40, to=to),
        "Start": agent_pb2.TasksRequest(tasks=["worker:77"], expected_generation=1 << 40, to=to),
        "FollowLog": agent_pb2.FollowLogRequest(tail=3, to=to),
        "Stack": agent_pb2.StackRequest(to=to),
        "Profile": agent_pb2.ProfileRequest(seconds=-1, to=to),
        "ReportFailure": agent_pb2.FailureReport(task=W0, status=_STATUS, to=to),
    }
    numbers, codes = random.Random(_SEED), dict[str, int]()

    async def one(channel: grpc.aio.Channel) -> None:
        method = numbers.choice(list(rights))
        data = mutated(numbers, rights[method].SerializeToString())
        call = channel.unary_stream(f"/tfscale.v1.Agent/{method}")(data, timeout=60, metadata=token)
        try:
            async for _ in call:
                break
            code = "OK"
        except grpc.aio.AioRpcError as error:
            code = error.code().name
        finally:
            call.cancel()
        codes[code] = codes.get(code, 0) + 1

    async with grpc.aio.insecure_channel(str(address)) as channel:
        for _ in range(0, inputs(), 50):
            await asyncio.gather(*(one(channel) for _ in range(50)))
    if wrong := {code for code in codes if code in ("UNKNOWN", "INTERNAL", "UNAVAILABLE", "DEADLINE_EXCEEDED")}:
        raise Unexpected(f"{', '.join(sorted(wrong))}: {codes}; {trial.said(W0)[-300:]}")
    return f"{sum(codes.values())} inputs: {', '.join(f'{code} {n}' for code, n in sorted(codes.items()))}"


def _port(trial: Trial) -> str:
    """Send random bytes to the agent's port, which expects HTTP/2."""
    address, numbers, number = trial.spec.agents[trial.spec.lead], random.Random(_SEED), max(1, inputs() // 20)
    right = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"
    for _ in range(number):
        with socket.create_connection((address.host, address.port), timeout=60) as connection:
            try:
                connection.sendall(mutated(numbers, right))
            except OSError:
                continue
    return f"{number} connections"


STANDS = Expectation(
    "the agent answers, consoles read it, and the task runs on", {W0: RUNS}, (W0,), said=W0, most_lost=0
)
FAULTS = (
    Fault("random cluster files", "random changes of a cluster file, as TOML and JSON", CLEAR, _cluster_file, NOBODY),
    Fault("random states", "random changes of a shim's state", CLEAR, _state, NOBODY),
    Fault("random journals", "random changes of a journal", CLEAR, _journal, NOBODY),
    Fault("random reports", "random changes of a report of the probe", CLEAR, _report, NOBODY),
    Fault("random frames", "random changes of a frame, as the console reads it", CLEAR, _frame, NOBODY),
    Fault("random replies", "random changes of an agent's answer, as the console reads it", CLEAR, _reply, NOBODY),
    Fault("random reports to an agent", "random reports to the socket of a living agent", STANDS, _socket),
    Fault(
        "random calls to an agent", "random messages to each method of a living agent, with its token", STANDS, _server
    ),
    Fault("random bytes to an agent", "random bytes to the port of a living agent", STANDS, _port),
)
