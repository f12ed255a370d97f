"""An agent that a service manager has started tells it what happens; its task is not the service."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from socket import AF_UNIX, SOCK_DGRAM, socket

import pytest

_TASK = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (time.sleep(1.0), sys.exit(0)))
print(sorted({"NOTIFY_SOCKET", "WATCHDOG_USEC"} & set(os.environ)), flush=True)
time.sleep(60)
"""


@pytest.mark.usefixtures("source_roots")
def test_a_manager_is_told_of_the_begin_of_life_and_of_the_end(tmp_path: Path) -> None:
    with socket(AF_UNIX, SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(20)
        variables = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "400000", "WATCHDOG_PID": ""}
        words = ["-m", "tfscale.agent.cli", "--state-dir", str(tmp_path), "--", sys.executable, "-c", _TASK]
        agent = subprocess.Popen(
            [sys.executable, *words], env=os.environ | variables, stdout=subprocess.PIPE, text=True, cwd=tmp_path
        )
        told = [manager.recv(4096).decode()]
        while "runs since" not in told[-1]:
            told.append(manager.recv(4096).decode())
        assert agent.stdout is not None and agent.stdout.readline() == "[]\n"
        agent.terminate()
        while "has ended" not in told[-1]:
            told.append(manager.recv(4096).decode())
        agent.wait(60)
        agent.stdout.close()
    assert told[0] == "READY=1" and "WATCHDOG=1" in told
    assert any(words.startswith("WATCHDOG=1\nSTATUS=worker:0 runs since ") for words in told)
    assert told.count("STOPPING=1\nSTATUS=ends its tasks") == 1
