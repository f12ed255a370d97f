"""Hosts that go for good, spares, and orders about where tasks sit."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from signal import SIGKILL

import grpc
from certificates import Issuer
from tfscale.core.access.caller_role import CallerRole
from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.cluster.file.cluster_file import load_cluster
from tfscale.core.cluster.placement.placement import Placement
from tfscale.core.cluster.security import open_channel
from tfscale.v1 import placement_pb2, placement_pb2_grpc

from faults import orders, seats
from faults.fault import RUNS, Expectation, Fault, Setup, Unexpected
from faults.judge import VACANT
from faults.kinds.access import certified
from faults.kinds.places import no_root
from faults.seats import SPARE
from faults.trial import Trial

LEAD, PEER, LAST = "worker:0", "worker:1", "worker:2"
ALL = (LEAD, PEER, LAST)
_LOST = 10
"""Most steps that a restart costs: as many as a checkpoint's period."""
_LOOKS = 60
"""Seconds for a gang to grow: its lead's agent looks every 10 s, three times, and the restart follows."""
_CALM = 10
"""Seconds in which a failure would be reported twice."""
_MENDED = 35
"""Seconds until a command is finished that a host left halfway: `replace_after`, and 20 s in which an agent is silent,
and as long as the move takes."""


def _hosts(spares: int, *more: str, policy: str = "OnFailure") -> Setup:
    table = ["[recovery]", f'policy = "{policy}"', 'backoff = "1s"', 'replace_after = "5s"', *more]
    return Setup(workers=3, hosts=True, spares=spares, table="\n".join(table))


SPARED, BARE, FEWER = _hosts(1), _hosts(0), _hosts(0, "min_workers = 2")
ENDING_LATE = replace(SPARED, variables={"ENDING": "4"})
SMALL = replace(
    SPARED,
    prefix={
        SPARE: (
            "unshare",
            "-m",
            "sh",
            "-c",
            'mount -t tmpfs -o size=1m,mode=0700 t "$0" && exec "$@"',
            "{folder}/state",
        )
    },
)
MIXED = replace(SPARED, before=lambda trial: _other_file(trial))
FLAPPING = _hosts(0, "min_workers = 2", "cordon_after = 2", "max_restarts = 1")
CORDONING = _hosts(1, "cordon_after = 1")
OBSERVED = Setup(
    workers=2, before=lambda trial: _observer(trial), table='[recovery]\npolicy = "Never"\nmin_workers = 1'
)
UNTOUCHED = Expectation("nothing is stopped", dict.fromkeys(ALL, RUNS), ALL, most_lost=0)


def _moved(words: str, *vacant: str, within: float = 120) -> Expectation:
    states = {task: VACANT if task in vacant else RUNS for task in ALL}
    is_new = tuple(task for task in ALL if task not in vacant)
    return Expectation(words, states, is_new=is_new, one_generation=True, most_lost=_LOST, within=within)


def _end_host(trial: Trial, task: str) -> None:
    """Kill all that belongs to the host of a task, the agent first."""
    pids = [trial.process(party, task) for party in ("agent", "shim", "task", "child")]
    for pid in pids:
        os.kill(pid, SIGKILL)
    trial.agents[task].wait(60)


def _host_gone(task: str, then: Callable[[Trial], str | None] = lambda _: None) -> Callable[[Trial], str | None]:
    """Return a deed: the host of a task is gone, and another task fails, as its collective does."""

    def act(trial: Trial) -> str | None:
        _end_host(trial, task)
        trial.signal("task", LAST, SIGKILL)
        return then(trial)

    return act


def _and_back(trial: Trial) -> str:
    began = time.monotonic()
    trial.until(lambda: len(trial.now.tasks) == len(ALL) - 1, 120, "a gang of two")
    took = time.monotonic() - began
    trial.start_agent(PEER)
    return f"two workers after {took:.0f} s"


def _without(trial: Trial, *names: str) -> str:
    return _restart(trial.now, *names)


def _restart(spec: ClusterSpec, *without: str) -> str:
    return orders.order(spec, "Restart", without=without)


def _ordered(trial: Trial) -> str:
    answer = _without(trial, PEER)
    if not answer.startswith("DONE"):
        raise Unexpected(f"the restart answered {answer!r}")
    return answer


def _stopped_at_the_console(trial: Trial) -> str:
    """End the host of the lead, have a console stop all tasks, and bring the host back."""
    _end_host(trial, LEAD)
    words = ["stop", PEER, "--yes", "--cluster", trial.file]
    done = subprocess.run(
        [sys.executable, "-m", "tfscale.console.cli", *words], capture_output=True, text=True, check=False, timeout=60
    )
    last = done.stderr.splitlines()[-1]
    if done.returncode != 1 or "whether worker:0 runs is not known" not in last:
        raise Unexpected(f"the console left with {done.returncode}, and said {done.stderr[-300:]!r}")
    trial.start_agent(LEAD)
    trial.until(lambda: "stop to generation 2: done" in trial.said(PEER), 30, "the end of the stop")
    time.sleep(_CALM)
    return last.partition("stop failed: ")[2]


def _ordered_at_the_console(trial: Trial) -> str:
    """End the host of the lead, and have a console leave it out."""
    _end_host(trial, LEAD)
    words = ["restart", "--without", LEAD, "--yes", "--cluster", trial.file]
    done = subprocess.run(
        [sys.executable, "-m", "tfscale.console.cli", *words], capture_output=True, text=True, check=False, timeout=60
    )
    if done.returncode:
        raise Unexpected(f"the console said {done.stderr[-300:]!r}")
    return next(line for line in done.stderr.splitlines() if "does not answer" in line).partition("- ")[2]


def _refused(answer: str, pattern: str) -> str:
    if not re.search(pattern, answer):
        raise Unexpected(f"the answer was {answer!r}")
    return answer[:200]


def _without_spare(trial: Trial) -> str:
    trial.signal("agent", SPARE, SIGKILL)
    trial.agents[SPARE].wait(60)
    return _refused(_without(trial, PEER), "no place for worker:1: no further spare is free")


def _other_file(trial: Trial) -> None:
    """Give the agent of worker:2 a file of the same name with another [recovery]."""
    folder = trial.folder / "other"
    folder.mkdir()
    other = trial.files[LAST] = folder / trial.file.name
    other.write_text(trial.file.read_text().replace('replace_after = "5s"', 'replace_after = "6s"'))


def _without_one_file(trial: Trial) -> str:
    return _refused(
        _without(trial, PEER), r"nothing was stopped: .*127.0.0.4.* has another replace_after in \[recovery"
    )


def _without_room(trial: Trial) -> str:
    """Fill the disk that the spare alone sees."""
    seen = Path(f"/proc/{trial.process('agent', SPARE)}/root{trial.state}")
    with contextlib.suppress(OSError), (seen / "filler").open("wb", buffering=0) as file:
        while file.write(bytes(1 << 12)):
            pass
    return _refused(_without(trial, PEER), "no place for worker:1.*can take none.*No space left on device")


def _spare_killed(trial: Trial) -> None:
    trial.signal("agent", SPARE, SIGKILL)
    trial.agents[SPARE].wait(60)
    time.sleep(1)
    trial.start_agent(SPARE)


def _killed_meanwhile(party: str) -> Callable[[Trial], str]:
    """Return a deed: an agent is killed while tasks move, once all have been stopped, and is back after a second."""

    def act(trial: Trial) -> str:
        restart = orders.Restarting(trial.spec, "STOPPED", (), ALL, without=[PEER])
        trial.signal("agent", party, SIGKILL)
        trial.agents[party].wait(60)
        time.sleep(1)
        trial.start_agent(party)
        return f"the restart's last word: {restart.wait()[:80] or 'none'}"

    return act


def _gone_in_restart(task: str) -> Callable[[Trial], str]:
    """Return a deed: a host is gone for good in a restart that somebody ordered, while all tasks end."""

    def act(trial: Trial) -> str:
        restart = orders.Restarting(trial.spec, "STOPPING", (PEER,), ALL)
        trial.until(lambda: all("stopping" in state for state in trial.states().values()), 10, "the end of all tasks")
        _end_host(trial, task)
        return f"the restart's last word: {restart.wait()[:80] or 'none'}"

    return act


def _flaps(trial: Trial) -> str:
    """End a host, let it come back until three train, and end it once more; return which host is cordoned then."""
    _end_host(trial, PEER)
    trial.signal("task", LAST, SIGKILL)
    _and_back(trial)
    trial.until(lambda: len(trial.now.tasks) == len(ALL) and not _differing(trial), 120, "a gang of three")
    task = next(each for each in ALL if trial.holder(each) == PEER)
    trial.until(lambda: trial.steps(task)[-1][0] == trial.pid(task), 60, f"a step of {task}")
    pids = [trial.agents[PEER].pid, *(trial.process(party, task) for party in ("shim", "task", "child"))]
    for pid in pids:
        os.kill(pid, SIGKILL)
    trial.agents[PEER].wait(60)
    trial.signal("task", PEER if task == LAST else LAST, SIGKILL)
    trial.until(lambda: seats.placement(trial.spec).cordoned, 60, "a cordoned host")
    return f"cordoned: {seats.placement(trial.spec).cordoned}"


def _differing(trial: Trial) -> list[str]:
    return [state for state in trial.states().values() if not re.search(RUNS, state)]


def _cordoned(trial: Trial) -> str:
    trial.signal("task", PEER, SIGKILL)
    trial.until(lambda: seats.placement(trial.spec).cordoned, 60, "a cordoned host")
    return f"cordoned: {seats.placement(trial.spec).cordoned}"


def _observer(trial: Trial) -> None:
    """Give the agents certificates, and the trial one of an observer, too."""
    issuer = Issuer(trial.folder / "own")
    certified(trial, issuer.tls("observer", CallerRole.OBSERVER, days=60), "observer.toml")
    trial.spec = load_cluster(certified(trial, issuer.tls("trial", days=60), "trial.toml"))
    trial.console_file = trial.folder / "observer.toml"
    certified(trial, issuer.tls("agent", days=60))


def _of_observer(trial: Trial) -> str:
    spec = load_cluster(trial.folder / "observer.toml")
    return _refused(_restart(spec, PEER), "PERMISSION_DENIED.*operator")


def _place_of_observer(trial: Trial) -> str:
    """Try to place the tasks of both agents on each other."""
    spec = load_cluster(trial.folder / "observer.toml")
    first, second = spec.agents.values()
    exchanged = Placement(9, dict(zip(spec.tasks, (second, first), strict=True)))
    request = placement_pb2.PlaceRequest(
        to=orders.any_task(spec), seat=str(first), placement=exchanged.to_json(), reason="a trial"
    )

    async def ask() -> str:
        try:
            async with open_channel(first, spec) as channel:
                return str(await placement_pb2_grpc.PlacementStub(channel).Place(request, timeout=30))
        except grpc.aio.AioRpcError as error:
            return f"{error.code().name} {error.details()}"

    return _refused(orders.run(ask()), "PERMISSION_DENIED.*agent")


FAULTS = (
    Fault("spare killed", "SIGKILL to the agent of the spare, back after 1 s", UNTOUCHED, _spare_killed, SPARED),
    Fault(
        "host gone, a spare",
        "the host of worker:1 is gone, and worker:2 is killed as its collective fails; there is a spare",
        _moved("restarted by itself, worker:1 on the spare"),
        _host_gone(PEER),
        SPARED,
    ),
    Fault(
        "lead's host gone, a spare",
        "the host of worker:0, the lead, is gone, and worker:2 is killed; there is a spare",
        _moved("restarted by itself, worker:0 on the spare"),
        _host_gone(LEAD),
        SPARED,
    ),
    Fault(
        "host gone, no spare",
        "the host of worker:1 is gone, and worker:2 is killed; there is no spare",
        Expectation("nothing is started in vain; the others are told who is missing", {LEAD: RUNS}, (LEAD,)),
        _host_gone(PEER),
        BARE,
    ),
    Fault(
        "host gone, fewer workers",
        "the host of worker:1 is gone, and worker:2 is killed; there is no spare, and min_workers = 2",
        _moved("restarted by itself with two workers", LAST),
        _host_gone(PEER),
        FEWER,
    ),
    Fault(
        "host back, more workers",
        "the same; the agent of the host is back when two train",
        _moved("the gang grows back to three", within=120 + _LOOKS),
        _host_gone(PEER, _and_back),
        FEWER,
    ),
    Fault(
        "host cordoned",
        "SIGKILL to worker:1, whose host is cordoned after one failure; there is a spare",
        _moved("restarted by itself, worker:1 on the spare"),
        _cordoned,
        CORDONING,
    ),
    Fault(
        "host dies again and again",
        "the host of worker:1 is gone, comes back, and is gone again, each time with one other worker killed; two "
        "failures cordon a host, one restart is allowed, and min_workers = 2",
        replace(
            _moved("cordoned; two workers go on, whose restart is not spent", LAST, within=300), most_lost=3 * _LOST
        ),
        _flaps,
        FLAPPING,
    ),
    Fault(
        "without a host",
        "a restart without the host of worker:1 is ordered",
        _moved("carried out, worker:1 on the spare"),
        _ordered,
        SPARED,
    ),
    Fault(
        "without the lead's host",
        "a restart without the host of worker:0, the lead, is ordered",
        _moved("carried out, worker:0 on the spare"),
        lambda trial: _without(trial, LEAD),
        SPARED,
    ),
    Fault(
        "without the lead's host, which is gone",
        "the host of worker:0, the lead, is gone; a restart without it is ordered at a console; the policy is Never",
        _moved("another agent carries it out, worker:0 on the spare"),
        _ordered_at_the_console,
        _hosts(1, policy="Never"),
    ),
    Fault(
        "stop, the lead's host gone",
        "the host of worker:0, the lead, is gone; a stop is ordered at a console, and then the host is back",
        Expectation(
            "the others are stopped, whose agent is dead is told, and nothing is started when it is back",
            {LEAD: "^lost", PEER: "^exited", LAST: "^exited"},
            ended=ALL,
        ),
        _stopped_at_the_console,
        SPARED,
    ),
    Fault(
        "without an unknown host",
        "a restart without a host that the cluster does not have is ordered",
        replace(UNTOUCHED, words="it is refused, and nothing is stopped"),
        lambda trial: _refused(_without(trial, "host-17"), "INVALID_ARGUMENT.*'host-17' is no host of the cluster"),
        SPARED,
    ),
    Fault(
        "without a host, the spare gone",
        "a restart without the host of worker:1 is ordered while the agent of the spare is dead",
        replace(UNTOUCHED, words="it is refused, and nothing is stopped"),
        _without_spare,
        SPARED,
    ),
    Fault(
        "without a host, the spare's disk full",
        "a restart without the host of worker:1 is ordered while the disk of the spare is full",
        replace(UNTOUCHED, words="it is refused with the reason, and nothing is stopped"),
        _without_room,
        SMALL,
        missing=no_root,
    ),
    Fault(
        "without a host, another file",
        "a restart without the host of worker:1 is ordered; the file of worker:2's agent has another [recovery]",
        replace(UNTOUCHED, words="it is refused with host and key, and nothing is stopped"),
        _without_one_file,
        MIXED,
    ),
    *(
        Fault(
            f"without a host: SIGKILL to {whose}",
            f"SIGKILL to {whose} while tasks move, once all have been stopped; back after 1 s",
            _moved("the restart goes on: all run in one generation"),
            _killed_meanwhile(party),
            SPARED,
        )
        for whose, party in (
            ("the lead's agent", LEAD),
            ("the spare's agent", SPARE),
            ("the agent that is left out", PEER),
        )
    ),
    *(
        Fault(
            f"{whose} host gone in a restart",
            f"the host of {task} is gone for good in a restart that somebody ordered, while all tasks end; there "
            "is a spare",
            _moved(f"restarted by itself, {task} on the spare", within=_MENDED),
            _gone_in_restart(task),
            ENDING_LATE,
        )
        for whose, task in (("the lead's", LEAD), ("a peer's", PEER))
    ),
    Fault(
        "observer: restart",
        "a restart without a host is ordered with the certificate of an observer",
        Expectation("it is refused, and nothing is stopped", dict.fromkeys((LEAD, PEER), RUNS), (LEAD, PEER)),
        _of_observer,
        OBSERVED,
    ),
    Fault(
        "observer: place",
        "tasks are placed anew with the certificate of an observer",
        Expectation("it is refused, and nothing is stopped", dict.fromkeys((LEAD, PEER), RUNS), (LEAD, PEER)),
        _place_of_observer,
        OBSERVED,
    ),
)
