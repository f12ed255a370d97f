"""`tfscale-train run` as a user starts it, without a GPU and with one of both Keras versions."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from example_programs import KERAS
from local_cluster import commands_with
from tfscale.trainer.launch.result import Result, read_result

TRAIN = Path(sys.executable).parent / "tfscale-train"


def environment(keras: str) -> dict[str, str]:
    return os.environ | {"CUDA_VISIBLE_DEVICES": ""} | KERAS[keras]


def start(strategy: tuple[str, ...], *words: str) -> list[str]:
    """Return the command that trains `digits` under a strategy with its options."""
    return [str(TRAIN), "run", "digits", "--strategy", *strategy, *words]


def train(path: Path, strategy: tuple[str, ...], *words: str, keras: str = "keras 3", step: int = 100) -> Result:
    """Train to the end and return the result; check that the mean loss of `step` was told, and no process left."""
    command = start(strategy, *words, "--json", str(path))
    ended = subprocess.run(command, env=environment(keras), capture_output=True, text=True, timeout=240, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "tfscale-console --cluster" in ended.stderr and "held out accuracy" in ended.stdout
    assert re.search(rf"^step {step}: mean loss \d", ended.stderr, re.MULTILINE)
    assert left(ended.stderr) == []
    return read_result(path)


def left(told: str) -> list[list[str]]:
    """Return the processes that a run has left, from what it told on stderr: its folder is in their commands."""
    (folder,) = set(re.findall(r"\S+/tfscale-run-[^/]+", told))
    return commands_with(folder)


def run_train(*words: str | Path, keras: str = "keras 3", timeout: float = 240) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, within so many seconds."""
    return subprocess.run(
        [TRAIN, "run", *words], env=environment(keras), capture_output=True, text=True, timeout=timeout, check=False
    )


def seen(*words: str | Path, until: Callable[[Any], bool]) -> Any:
    """Run a program, interrupt it once `tfscale-console --once` says what is waited for, and return what it said.

    Raises AssertionError after a minute, and where the run ends otherwise than interrupted.
    """
    command = [TRAIN, "run", *words, "--steps", "1000000"]
    with subprocess.Popen(command, env=environment("keras 3"), stderr=subprocess.PIPE, text=True) as run:
        assert run.stderr is not None
        try:
            run.stderr.readline()
            console, *of_console = run.stderr.readline().split()
            ends = time.monotonic() + 60
            while not until(snapshot := _once([TRAIN.parent / console, *of_console])):
                assert time.monotonic() < ends, snapshot
        finally:
            # Its steps are enough for hours, and `with` waits for it.
            run.send_signal(signal.SIGINT)
        assert run.wait(30) == 130
    return snapshot


def _once(console: list[str | Path]) -> Any:
    told = subprocess.run([*console, "--once"], capture_output=True, text=True, check=False)
    return json.loads(told.stdout)
