"""Runs of `programs/cells/cells.py`, one process a worker: its own lines, and the reports of its probes."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import net_hosts
from loopback import free_addresses
from report_sink import ReportSink

PROGRAM = Path(__file__).parents[1] / "programs" / "cells" / "cells.py"
WIRE_SECONDS = 0.020
"""Seconds that a step's bytes take on the link while it is slow."""
HEADERS = 1.05
"""Factor by which the headers of Ethernet, IP and TCP enlarge a payload."""
_USUAL_BYTES = 1_200_000
_START_SECONDS, _LOOP_SECONDS = 90, 60


@dataclass
class Ran:
    """One loop as the delayed worker reports it: its blocks (name, begin, end; Unix seconds) and facts, or an error."""

    began: float = 0.0
    done: float = 0.0
    error: str = ""
    facts: dict[str, Any] = field(default_factory=dict)
    blocks: list[tuple[str, float, float]] = field(default_factory=list)


@dataclass
class Group:
    """Result of one run of the program; `sink` is that of the delayed worker, the last one."""

    strategy: str
    legacy: bool
    loops: dict[str, Ran]
    sink: ReportSink
    log: str


def run_group(strategy: str, legacy: bool, loops: Sequence[str], rounds: int = 1) -> Group:
    """Train all of `loops`, one after the other, each with all delays in turn as often as there are `rounds`."""
    workers = 2 if strategy.startswith("multi_worker") else 1
    linked = workers > 1 and not net_hosts.missing()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if linked:
            stack.enter_context(net_hosts.hosts())
        sinks = [ReportSink(folder / f"{index}.sock", f"worker:{index}") for index in range(workers)]
        addresses = (
            [f"{net_hosts.address(host)}:2222" for host in range(workers)] if linked else [*free_addresses(workers)]
        )
        processes = []
        for index, sink in enumerate(sinks):
            variables = {"CELLS_LINK": "1" if linked else "", "CELLS_ROUNDS": str(rounds)}
            variables["TF_USE_LEGACY_KERAS"] = "1" if legacy else ""
            if workers > 1:
                task = {"type": "worker", "index": index}
                variables["TF_CONFIG"] = json.dumps({"cluster": {"worker": addresses}, "task": task})
            log = stack.enter_context((folder / f"{index}.log").open("w"))
            command = [*(net_hosts.inside(index) if linked else []), sys.executable, str(PROGRAM), strategy, *loops]
            processes.append(stack.enter_context(start(command, sink.environment() | variables, log)))
        group = Group(strategy, legacy, {loop: Ran() for loop in loops}, sinks[-1], "")
        watchdog = threading.Timer(_START_SECONDS + _LOOP_SECONDS * rounds * len(loops), kill, [processes])
        watchdog.start()
        readers = [threading.Thread(target=listen, args=[each, None]) for each in processes[:-1]]
        for reader in readers:
            reader.start()
        listen(processes[-1], group)
        for process in processes:
            process.wait()
        watchdog.cancel()
        for reader in readers:
            reader.join()
        for sink in sinks:
            sink.close()
        group.log = "\n".join((folder / f"{index}.log").read_text()[-4000:] for index in range(workers))
        return group


@contextlib.contextmanager
def start(command: Sequence[str], variables: dict[str, str], log: Any) -> Iterator[subprocess.Popen[str]]:
    quiet = {"CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "2", "TF_NUM_INTRAOP_THREADS": "1"}
    # Delays sleep in threads that ops share: with as many as there are cores, they would hold up others than their own.
    environment = os.environ | quiet | {"TF_NUM_INTEROP_THREADS": "8"} | variables
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": log, "text": True}
    process = subprocess.Popen(command, env=environment, **pipes)  # type: ignore[call-overload]
    try:
        yield process
    finally:
        kill([process])
        process.wait()
        process.stdin.close()
        process.stdout.close()


def kill(processes: Sequence[subprocess.Popen[str]]) -> None:
    for process in processes:
        if process.poll() is None:
            process.kill()


def listen(process: subprocess.Popen[str], group: Group | None) -> None:
    """Read a process's lines until it ends; for the delayed one, also slow its link down when it asks for that."""
    assert process.stdout is not None and process.stdin is not None
    for text in process.stdout:
        if group is None or not text.startswith("{"):
            continue
        line = json.loads(text)
        ran = group.loops[line.pop("loop")]
        if "link" in line:
            set_link(line["link"] == "slow", group)
            process.stdin.write("\n")
            process.stdin.flush()
        elif "block" in line:
            ran.blocks.append((line["block"], line["begin"], line["end"]))
        else:
            vars(ran).update(line)


def set_link(slow: bool, group: Group) -> None:
    host = 1
    if not slow:
        net_hosts.free(host)
        return
    status = group.sink.statuses[-1][1] if group.sink.statuses else None
    ranks = status.replicas if status and status.replicas else 2
    size = (status.reduced_bytes_per_step if status else 0) or _USUAL_BYTES
    # In a ring each rank sends 2 (n - 1) / n of the bytes, and only one rank of a host sends them to the other host.
    sent = size * 2 * (ranks - 1) / ranks
    net_hosts.slow(host, max(sent * 8 * HEADERS / WIRE_SECONDS, 1e6))
