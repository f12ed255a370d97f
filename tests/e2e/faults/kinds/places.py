"""Ports that are taken, disks that are full or hang, memory that ends."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from incidents import groups

from faults import orders
from faults.fault import RUNS, Expectation, Fault, Setup, Unexpected
from faults.trial import Trial

W0, W1 = "worker:0", "worker:1"
PAIR = Setup(workers=2)
KEEPS = Expectation("it is refused, and nothing is stopped", {W0: RUNS}, (W0,), most_lost=0)


def no_root() -> str:
    """Return why no small disk can be had here, empty where one can."""
    return "" if os.geteuid() == 0 else "a small disk needs root"


def _in_project(trial: Trial) -> None:
    (trial.folder / "project").mkdir()


def _made_anew(trial: Trial) -> str:
    (trial.folder / "project").rmdir()
    refused = _refused(trial, "Restart", "the working folder was removed: make it anew")
    _in_project(trial)
    answer = orders.order(trial.spec, "Restart", W0)
    if not answer.startswith("DONE"):
        raise Unexpected(f"the restart answered {answer!r} after {refused!r}")
    return refused


def _listener(trial: Trial, port: int) -> socket.socket:
    taken = socket.create_server(("127.0.0.1", port))
    trial.stack.callback(taken.close)
    return taken


def _take_task_port(trial: Trial) -> str:
    stopped = orders.order(trial.spec, "Stop", W0, W1)
    _listener(trial, trial.spec.tasks[trial.spec.lead].port)
    answer = orders.order(trial.spec, "Start", W0, W1)
    if "port" not in answer:
        raise Unexpected(f"the start answered {answer!r} after {stopped!r}")
    return answer[:120]


def _take_agent_port(trial: Trial) -> None:
    _listener(trial, trial.spec.agents[trial.spec.lead].port)
    trial.start_agent(W0).wait(60)


def _second_agent(trial: Trial) -> str:
    first = trial.agents[W0]
    second = trial.start_agent(W0)
    trial.agents[W0] = first
    status = second.wait(60)
    if status != 1:
        raise Unexpected(f"the second agent ended with {status}")
    return "the second agent ended with 1"


def _mount(trial: Trial) -> None:
    """Put a small disk where the state will be; it goes with the trial."""
    command = ["mount", "-t", "tmpfs", "-o", "size=512k,mode=0700", "tmpfs", str(trial.state)]
    subprocess.run(command, check=True)
    trial.stack.callback(lambda: subprocess.run(["umount", "-l", trial.state], check=False))


def _fill(trial: Trial) -> None:
    block = b"x" * 4096
    with contextlib.suppress(OSError), (trial.state / "filler").open("wb", buffering=0) as file:
        while file.write(block) == len(block):
            pass
    with contextlib.suppress(OSError), (trial.state / "filler").open("ab", buffering=0) as file:
        while file.write(b"x"):
            pass


def _full_then_restart(trial: Trial) -> str:
    _fill(trial)
    return _refused(trial, "Restart", "space|written")


def _refused(trial: Trial, verb: str, pattern: str) -> str:
    answer = orders.order(trial.spec, verb, W0)
    if not re.search(pattern, answer):
        raise Unexpected(f"{verb} answered {answer!r}")
    return answer[:160]


def _full_then_end(trial: Trial) -> None:
    _fill(trial)
    trial.order(W0, "exit")


def _full_then_next_agent(trial: Trial) -> None:
    _full_then_end(trial)
    trial.until_state("^exited 3")
    trial.signal("agent", W0, signal.SIGKILL)
    trial.agents[W0].wait(60)
    (trial.state / "filler").unlink()
    trial.start_agent(W0)


def _fifo(ending: str) -> Callable[[Trial], None]:
    def before(trial: Trial) -> None:
        trial.run_folder.mkdir(mode=0o700, parents=True)
        os.mkfifo(trial.path(W0, ending), 0o600)

    return before


def _hang_journal(trial: Trial) -> str:
    os.mkfifo(trial.path(W0, "agent.json.new"), 0o600)
    began = time.monotonic()
    told = _refused(trial, "Restart", "cannot be written|answer|hang")
    return f"{told} after {time.monotonic() - began:.0f} s"


def _logs_hang(trial: Trial) -> str:
    """Let the program's log hang from its start: the steps go on meanwhile."""
    made = len(trial.steps(W0))
    time.sleep(2)
    more = len(trial.steps(W0)) - made
    if more < 20:
        raise Unexpected(f"only {more} steps in 2 s")
    return f"{more} steps in 2 s"


def _in_memory(megabytes: int) -> Callable[[Trial], None]:
    def before(trial: Trial) -> None:
        group = groups.path("memory", f"faults-{trial.folder.name}")
        group.mkdir()
        trial.stack.callback(lambda: _remove(group))
        (group / "memory.limit_in_bytes").write_text(str(megabytes << 20))
        (trial.folder / "group").symlink_to(group)

    return before


def _remove(group: Path) -> None:
    for _ in range(50):
        with contextlib.suppress(OSError):
            group.rmdir()
            return
        time.sleep(0.1)


_JOIN = ("sh", "-c", 'echo $$ > {folder}/group/cgroup.procs && exec "$@"', "sh")


def _removed_runtime_folder(trial: Trial) -> None:
    shutil.rmtree(trial.folder / "XDG_RUNTIME_DIR")


def _stderr_closed(trial: Trial) -> None:
    trial.start_agent(W0)


DISK = Setup(before=_mount)
PROJECT = Setup(before=_in_project, prefix={W0: ("sh", "-c", 'cd {folder}/project && exec "$@"', "sh")})
FAULTS = (
    Fault(
        "port of task taken",
        "another program takes the port of a stopped task, which is started then",
        Expectation("the start is refused with the port's name", {W0: "^exited 143"}),
        _take_task_port,
        PAIR,
    ),
    Fault(
        "port of agent taken",
        "another program has the agent's port as it starts",
        Expectation("it ends with 1 and one line", agents={W0: "^1$"}, log={W0: "cannot listen on"}),
        _take_agent_port,
        Setup(starts=False),
        quick=True,
    ),
    Fault(
        "second agent",
        "a second agent of the task is started",
        Expectation("it ends with 1; the first and its task run on", {W0: RUNS}, (W0,), log={W0: "already"}),
        _second_agent,
    ),
    Fault(
        "full disk: restart",
        "the disk of the state is full; a restart is ordered",
        KEEPS,
        _full_then_restart,
        DISK,
        missing=no_root,
        quick=True,
    ),
    Fault(
        "full disk: task ends",
        "the disk of the state is full; the task exits with 3",
        Expectation("its end is told", {W0: "^exited 3"}),
        _full_then_end,
        DISK,
        missing=no_root,
    ),
    Fault(
        "full disk: next agent",
        "the same; the agent is killed, and the next one starts when there is room",
        Expectation("the end is written: the next agent tells it, and starts nothing", {W0: "^exited 3"}),
        _full_then_next_agent,
        DISK,
        missing=no_root,
    ),
    Fault(
        "hanging disk: log",
        "the log's disk hangs from the start (a pipe that nobody reads)",
        Expectation("the task makes its steps, and the agent answers", {W0: RUNS}, (W0,), most_lost=0),
        _logs_hang,
        Setup(before=_fifo("log")),
    ),
    Fault(
        "hanging disk: restart",
        "the journal's disk hangs; a restart is ordered",
        KEEPS,
        _hang_journal,
    ),
    Fault(
        "working folder made anew",
        "the working folder is removed, and a restart is ordered; it is made anew, and one is ordered again",
        Expectation("the first is refused and stops nothing, the second is carried out", {W0: RUNS}, is_new=(W0,)),
        _made_anew,
        PROJECT,
    ),
    Fault(
        "out of memory",
        "the task's program takes more memory than its cgroup has (400 MiB)",
        Expectation("the kernel kills it, which is told; the agent goes on", {W0: "^exited SIGKILL"}, within=60),
        lambda trial: trial.order(W0, "eat"),
        Setup(before=_in_memory(400), prefix={W0: _JOIN}),
        missing=lambda: groups.missing("memory"),
    ),
    Fault(
        "runtime folder removed",
        "the runtime folder is removed, as at a logout",
        Expectation("the socket is made anew, which is told", {W0: RUNS}, (W0,), log={W0: "was removed"}, most_lost=0),
        _removed_runtime_folder,
    ),
    Fault(
        "stderr closed",
        "the agent is started with stderr closed",
        Expectation("its task runs", {W0: RUNS}, is_new=(W0,)),
        _stderr_closed,
        Setup(starts=False, prefix={W0: ("sh", "-c", 'exec "$@" 2>&-', "sh")}),
    ),
    Fault(
        "stderr full",
        "the agent's stderr is a full disk (/dev/full)",
        Expectation("its task runs", {W0: RUNS}, is_new=(W0,)),
        _stderr_closed,
        Setup(starts=False, prefix={W0: ("sh", "-c", 'exec "$@" 2>/dev/full', "sh")}),
    ),
)
