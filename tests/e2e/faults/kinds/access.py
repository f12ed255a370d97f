"""Certificates that are wrong, tokens that are missing, requests for others, and requests out of all bounds."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
from certificates import Issuer
from tfscale.core.cluster.cluster_spec import Tls
from tfscale.core.cluster.file.cluster_file import load_cluster
from tfscale.v1 import agent_pb2, agent_pb2_grpc

from faults import orders
from faults.fault import RUNS, Expectation, Fault, Setup, Unexpected
from faults.trial import Trial

W0, W1 = "worker:0", "worker:1"
KEEPS = Expectation("it is refused, and the task runs on", {W0: RUNS}, (W0,), most_lost=0)


def certified(trial: Trial, tls: Tls, name: str = "cluster.toml") -> Path:
    """Write a cluster file with these certificates; return its path."""
    lines = [f'{key} = "{getattr(tls, key)}"' for key in ("ca", "certificate", "key")]
    text = (trial.folder / "cluster.toml").read_text()
    text = text[text.index("[cluster]") :].partition("[tls]")[0]
    path = trial.folder / name
    # The name of the run would be the file's.
    path.write_text("\n".join([f'name = "{trial.spec.name}"', text, "[tls]", *lines, ""]))
    return path


def _foreign_authority(folder: Path) -> Tls:
    own, other = Issuer(folder / "own").tls("agent"), Issuer(folder / "other").tls("agent")
    return replace(own, ca=other.ca)


def _foreign_key(folder: Path) -> Tls:
    issuer = Issuer(folder / "own")
    return replace(issuer.tls("agent"), key=issuer.tls("other").key)


def _damaged(folder: Path) -> Tls:
    tls = Issuer(folder / "own").tls("agent")
    tls.certificate.write_bytes(tls.certificate.read_bytes()[:200])
    return tls


def _missing(folder: Path) -> Tls:
    tls = Issuer(folder / "own").tls("agent")
    tls.key.unlink()
    return tls


_WRONG: dict[str, tuple[Callable[[Path], Tls], str]] = {
    "expired": (lambda folder: Issuer(folder / "own").tls("agent", begins=timedelta(days=-4), days=2), "expired|ended"),
    "not yet valid": (lambda folder: Issuer(folder / "own").tls("agent", begins=timedelta(days=1)), "valid|begin"),
    "of another authority": (_foreign_authority, "authority"),
    "with another key": (_foreign_key, "key"),
    "without a role": (lambda folder: Issuer(folder / "own").without_role("agent"), "role"),
    "cut off": (_damaged, "certificate"),
    "without its key": (_missing, "key"),
}


def _start_with(make: Callable[[Path], Tls], pattern: str) -> Callable[[Trial], str]:
    def act(trial: Trial) -> str:
        certified(trial, make(trial.folder))
        trial.start_agent(W0).wait(90)  # after what Python and gRPC need to start
        said = trial.said(W0)
        if trial.steps(W0) or not re.search(pattern, said) or "Traceback" in said:
            raise Unexpected(f"it started, or said {said[-200:]!r}")
        return said.strip().splitlines()[-1][:200]

    return act


def _secure(trial: Trial) -> None:
    """Give the agents certificates, and the trial one of its own, which nothing happens to."""
    issuer = Issuer(trial.folder / "own")
    trial.spec = load_cluster(certified(trial, issuer.tls("trial", days=60), "trial.toml"))
    trial.console_file = trial.folder / "trial.toml"
    certified(trial, issuer.tls("agent", days=60))


def _one_of_two(trial: Trial) -> None:
    """Give the second agent the certificates of another authority."""
    _secure(trial)
    trial.files[W1] = certified(trial, Issuer(trial.folder / "other").tls("agent"), "other.toml")


def _restart_of_foreign(trial: Trial) -> str:
    return _refused(orders.order(trial.spec, "Restart", W0, W1), "nothing was stopped|authority|certificate")


def _cut_off_while_it_serves(trial: Trial) -> str:
    certificate = trial.folder / "own" / "agent.pem"
    certificate.write_bytes(certificate.read_bytes()[:100])
    trial.until(lambda: "damaged" in trial.said(W0), 60, "a word about the certificate")
    return trial.said(W0).strip().splitlines()[-1][:200]


def _foreign_console(trial: Trial) -> None:
    trial.console_file = certified(trial, Issuer(trial.folder / "other").tls("agent"), "other.toml")
    assert trial.console is not None
    trial.console.kill()
    trial.console.wait()
    trial.heard_file.unlink(missing_ok=True)
    trial.start_console()
    trial.until(trial.heard, 120, "a sentence of the console")


def _plain_call(trial: Trial) -> str:
    return _refused(_bare(trial, "Restart", _tasks(trial)), "UNAVAILABLE")


def _refused(answer: Any, pattern: str) -> str:
    if not re.search(pattern, str(answer)):
        raise Unexpected(f"the answer was {str(answer)[:200]!r}")
    return " ".join(str(answer).split())[:200]


def _tasks(trial: Trial, **fields: Any) -> agent_pb2.TasksRequest:
    return agent_pb2.TasksRequest(
        **{"tasks": [W0], "reason": "a trial", "to": orders.identity(trial.spec, W0), **fields}
    )


def _bare(trial: Trial, method: str, request: Any, token: str = "") -> Any:
    """Call an agent as one who has no token, or another one."""
    metadata = [("tfscale-token", token)] if token else []
    with grpc.insecure_channel(str(trial.spec.agents[trial.spec.lead])) as channel:
        call = getattr(agent_pb2_grpc.AgentStub(channel), method)
        try:
            answer = call(request, timeout=60, metadata=metadata)
            return answer if not hasattr(answer, "__next__") else next(iter(answer), None)
        except grpc.RpcError as error:
            return f"{error.code().name} {error.details()}"


def _asked(method: str, request: Callable[[Trial], Any], pattern: str) -> Callable[[Trial], str]:
    return lambda trial: _refused(orders.call(trial.spec, W0, method, request(trial)), pattern)


def _to(trial: Trial, **changes: str) -> agent_pb2.TaskIdentity:
    identity = orders.identity(trial.spec, W0)
    for name, value in changes.items():
        setattr(identity, name, value)
    return identity


def _apply(generation: int, target: int = 2) -> Callable[[Trial], agent_pb2.ApplyRequest]:
    return lambda trial: agent_pb2.ApplyRequest(
        target=target,
        generation=generation,
        reason="a trial",
        to=orders.identity(trial.spec, W0),  # type: ignore[arg-type]
    )


def _row_of_request(name: str, does: str, method: str, request: Callable[[Trial], Any], pattern: str) -> Fault:
    return Fault(f"request {name}", does, KEEPS, _asked(method, request, pattern), quick=name == "for another run")


def _idle(trial: Trial) -> str:
    """Hold 1,500 connections that say nothing, and ask the agent meanwhile."""
    address = trial.spec.agents[trial.spec.lead]
    connections = list[socket.socket]()
    try:
        while len(connections) < 1500:
            connections.append(socket.create_connection((address.host, address.port), timeout=30))
        began = time.monotonic()
        described = orders.call(trial.spec, W0, "Describe", agent_pb2.DescribeRequest(), 45)
        took = time.monotonic() - began
        if isinstance(described, str) or took > 20:
            raise Unexpected(f"it answered {str(described)[:80]!r} after {took:.1f} s")
        return f"{len(connections)} connections; a question was answered after {took:.1f} s"
    finally:
        for connection in connections:
            connection.close()


def _flood(trial: Trial) -> str:
    began, number = time.monotonic(), 0
    with grpc.insecure_channel(str(trial.spec.agents[trial.spec.lead])) as channel:
        stub = agent_pb2_grpc.AgentStub(channel)
        while time.monotonic() - began < 5:
            for future in [stub.Describe.future(agent_pb2.DescribeRequest()) for _ in range(50)]:
                future.exception(timeout=60)
                number += 1
    return f"{number} questions in 5 s"


def _half_spoken(trial: Trial) -> str:
    """Send the begin of a connection, and then nothing more, 200 times."""
    address = trial.spec.agents[trial.spec.lead]
    held = [socket.create_connection((address.host, address.port), timeout=30) for _ in range(200)]
    for each in held:
        each.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x12")
    described = orders.call(trial.spec, W0, "Describe", agent_pb2.DescribeRequest(), 45)
    for each in held:
        each.close()
    return _refused(described, "worker:0")[:60]


def _streams(trial: Trial) -> str:
    """Open 300 streams of frames at once, and leave them."""
    with grpc.insecure_channel(str(trial.spec.agents[trial.spec.lead])) as channel:
        stub = agent_pb2_grpc.AgentStub(channel)
        streams = [stub.Watch(agent_pb2.WatchRequest(schema_version=1), timeout=60) for _ in range(300)]
        answered = 0
        for stream in streams:
            try:
                next(iter(stream))
                answered += 1
            except grpc.RpcError:
                continue
        return f"{answered} of 300 streams were answered"


SECURE = Setup(before=_secure)
ANSWERS = Expectation("the agent answers meanwhile", {W0: RUNS}, (W0,), most_lost=0)
FAULTS = (
    *(
        Fault(
            f"certificate {name}",
            f"an agent is started whose certificate is {name}",
            Expectation("it ends with 2 and one line; nothing is started", agents={W0: "^2$"}),
            _start_with(make, pattern),
            Setup(starts=False),
            quick=name == "expired",
        )
        for name, (make, pattern) in _WRONG.items()
    ),
    Fault(
        "certificate replaced by a wrong one",
        "the certificate of an agent that serves is cut off",
        Expectation("it says so, and serves with the old one", {W0: RUNS}, (W0,), most_lost=0),
        _cut_off_while_it_serves,
        SECURE,
    ),
    Fault(
        "certificate of one of two",
        "the agent of worker:1 has certificates of another authority; a restart is ordered",
        Expectation("it is refused with the reason; nothing is stopped", {W0: RUNS}, (W0,), most_lost=0),
        _restart_of_foreign,
        Setup(workers=2, before=_one_of_two, ready="^(running|no answer)"),
    ),
    Fault(
        "certificate of console",
        "a console with certificates of another authority",
        Expectation("it says so, and the task runs on", {W0: RUNS}, (W0,), said="authority|certificate", most_lost=0),
        _foreign_console,
        SECURE,
    ),
    Fault("plain text", "a restart is ordered in plain text where TLS is spoken", KEEPS, _plain_call, SECURE),
    Fault(
        "token missing",
        "a restart is ordered without the agent's token",
        KEEPS,
        lambda trial: _refused(_bare(trial, "Restart", _tasks(trial)), "PERMISSION_DENIED"),
        quick=True,
    ),
    Fault(
        "token wrong",
        "a restart is ordered with a token of somebody else",
        KEEPS,
        lambda trial: _refused(_bare(trial, "Restart", _tasks(trial), "0" * 64), "PERMISSION_DENIED"),
    ),
    Fault(
        "token missing: Apply",
        "an agent's order is given without a token",
        KEEPS,
        lambda trial: _refused(_bare(trial, "Apply", _apply(9)(trial)), "PERMISSION_DENIED"),
    ),
    _row_of_request(
        "for another run",
        "a restart for another run",
        "Restart",
        lambda t: _tasks(t, to=_to(t, run="theirs")),
        "NOT_FOUND.*theirs",
    ),
    _row_of_request(
        "for another task",
        "a restart for another task",
        "Restart",
        lambda t: _tasks(t, to=_to(t, task="worker:7")),
        "NOT_FOUND.*worker:7",
    ),
    _row_of_request(
        "for another cluster",
        "a restart for another cluster",
        "Restart",
        lambda t: _tasks(t, to=_to(t, fingerprint="00000000")),
        "NOT_FOUND.*00000000",
    ),
    _row_of_request(
        "for nobody", "a restart that names nobody", "Restart", lambda t: _tasks(t, to=None), "does not say whom"
    ),
    _row_of_request(
        "of a task that is not there",
        "a restart of worker:99",
        "Restart",
        lambda t: _tasks(t, tasks=["worker:99"]),
        "worker:99",
    ),
    _row_of_request(
        "of nonsense",
        "a restart of a task with control characters",
        "Restart",
        lambda t: _tasks(t, tasks=["\x1b[2J\n" * 9]),
        "INVALID|NOT_FOUND|FAILED",
    ),
    _row_of_request(
        "of 100,000 tasks",
        "a restart of 100,000 tasks",
        "Restart",
        lambda t: _tasks(t, tasks=["worker:5"] * 100_000),
        "[A-Z_]{5,}",
    ),
    _row_of_request(
        "with 3 MB reason",
        "a stop of nobody's generation with a reason of 3 MB",
        "Stop",
        lambda t: _tasks(t, reason="x" * 3_000_000, expected_generation=77),
        "[A-Z_]{5,}",
    ),
    _row_of_request(
        "of a moved generation",
        "a restart of a generation that is not there",
        "Restart",
        lambda t: _tasks(t, expected_generation=77),
        "FAILED_PRECONDITION",
    ),
    _row_of_request(
        "to generation 2^64-1", "an agent's order in generation 2^64-1", "Apply", _apply(2**64 - 1), "generation"
    ),
    _row_of_request("to generation 0", "an agent's order in generation 0", "Apply", _apply(0), "generation"),
    _row_of_request("of no target", "an agent's order without a target", "Apply", _apply(1, 0), "[A-Z_]{5,}"),
    _row_of_request(
        "of unknown target", "an agent's order with a target of a later version", "Apply", _apply(1, 99), "[A-Z_]{5,}"
    ),
    _row_of_request(
        "of 2^32-1 lines",
        "the newest 2^32-1 lines of the log",
        "FollowLog",
        lambda t: agent_pb2.FollowLogRequest(tail=2**32 - 1, to=orders.identity(t.spec, W0)),
        "lines",
    ),
    _row_of_request(
        "of endless profile",
        "a profile of infinitely many seconds",
        "Profile",
        lambda t: agent_pb2.ProfileRequest(seconds=float("inf"), to=orders.identity(t.spec, W0)),
        "[A-Z_]{5,}",
    ),
    Fault("1,500 idle connections", "1,500 connections that say nothing", ANSWERS, _idle),
    Fault("200 half-spoken connections", "200 connections that stop in the midst of a word", ANSWERS, _half_spoken),
    Fault("300 streams", "300 streams of frames at once", ANSWERS, _streams),
    Fault("flood of questions", "as many questions as go in 5 s", ANSWERS, _flood),
)
