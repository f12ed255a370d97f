"""Agents that are process 1 of a container: real namespaces of processes, in which orphans are left."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from tfscale.core.cluster.local.loopback_cluster import free_loopback

_CONTAINER = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
_ORPHANS = """
import os, subprocess, sys, time
for _ in range(20):
    if os.fork() == 0:  # its own child loses its parent, and ends a little later
        os.fork() and os._exit(0)
        time.sleep(0.2)
        os._exit(0)
    os.wait()
time.sleep(1)
numbers = [name for name in os.listdir("/proc") if name.isdecimal()]
stats = [open(f"/proc/{number}/stat").read().rpartition(")")[2].split() for number in numbers]
print("zombies", sum(stat[0] == "Z" for stat in stats), "parents", *sorted({stat[1] for stat in stats}))
sys.exit(7)
"""
_WAITS = "import time; print('up', flush=True); time.sleep(60)"


def _missing() -> str:
    if shutil.which("unshare") is None:
        return "needs unshare(1) of util-linux"
    tried = subprocess.run([*_CONTAINER, "true"], capture_output=True, text=True, check=False)
    return f"needs the right to make namespaces: {tried.stderr.strip()}" if tried.returncode else ""


pytestmark = [pytest.mark.skipif(_missing() != "", reason=_missing()), pytest.mark.usefixtures("source_roots")]


@contextmanager
def container(folder: Path, program: str, flags: Sequence[str] = ()) -> Iterator[subprocess.Popen[str]]:
    """Run an agent as process 1 of a namespace, with a program of Python."""
    own = [sys.executable, "-m", "tfscale.agent.cli", "--grace", "1", "--listen", str(free_loopback())]
    agent = [*own, *flags, "--", sys.executable, "-c", program]
    process = subprocess.Popen(
        [*_CONTAINER, *agent], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def _first(process: subprocess.Popen[str]) -> int:
    """Return the process that is number 1 of the namespace, as this one sees it."""
    return int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text())


def test_orphans_are_reaped_and_the_status_is_the_tasks(tmp_path: Path) -> None:
    with container(tmp_path, _ORPHANS) as process:
        output, errors = process.communicate(timeout=120)
    assert process.returncode == 7, errors
    assert re.match(r"zombies 0 parents 0 1 ", output), output


@pytest.mark.parametrize(
    ("number", "words"),
    [(signal.SIGTERM, "asked to end"), (signal.SIGINT, "passes on SIGINT"), (signal.SIGHUP, "passes on SIGHUP")],
)
def test_signals_reach_the_agent_once(tmp_path: Path, number: signal.Signals, words: str) -> None:
    with container(tmp_path, _WAITS, ["--log-level", "info"]) as process:
        assert process.stdout is not None and process.stdout.readline() == "up\n"
        os.kill(_first(process), number)
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 128 + number
    assert errors.count(f"worker:0 {words}") == 1


def test_an_agent_that_is_killed_ends_its_container(tmp_path: Path) -> None:
    with container(tmp_path, _WAITS) as process:
        assert process.stdout is not None and process.stdout.readline() == "up\n"
        first = _first(process)
        agent = int(Path(f"/proc/{first}/task/{first}/children").read_text().split()[0])
        os.kill(agent, signal.SIGKILL)
        assert process.wait(60) == 128 + signal.SIGKILL


def test_the_process_before_the_agent_is_small(tmp_path: Path) -> None:
    with container(tmp_path, _WAITS) as process:
        assert process.stdout is not None and process.stdout.readline() == "up\n"
        time.sleep(0.5)
        status = Path(f"/proc/{_first(process)}/status").read_text()
    (kilobytes,) = re.findall(r"RssAnon:\s+(\d+) kB", status)
    assert int(kilobytes) < 10_000


def test_a_pod_of_a_tfjob_needs_no_flag(tmp_path: Path) -> None:
    """No name resolves yet, and the own is that of a service, at whose address no process can listen."""
    names = [f"digits-worker-{index}.train.svc:2222" for index in range(2)]
    config = {"cluster": {"worker": names}, "task": {"type": "worker", "index": 0}, "environment": "cloud"}
    pod = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "TF_CONFIG": json.dumps(config)}
    done = subprocess.run(
        [*_CONTAINER, "--net", sys.executable, "-m", "tfscale.agent.cli", "--", sys.executable, "-c", _ORPHANS],
        **{"cwd": tmp_path, "env": os.environ | pod, "capture_output": True, "text": True},
        timeout=120,
        check=False,
    )
    assert done.returncode == 7, done.stderr
    assert re.match(r"zombies 0 parents 0 1 ", done.stdout), done.stdout
