"""Each command that the README prints, typed as it stands there into a terminal."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest
from local_cluster import wait_until
from loopback import free_addresses

ROOT = Path(__file__).parents[3]
README = ROOT / "README.md"
PATIENCE = 90.0
"""Seconds for a command to show what it should: real TensorFlow starts on a busy machine."""
CTRL_C, INTERRUPTED = "\x03", 128 + signal.SIGINT
"""Key that interrupts a script, and the status that a shell gives to an interrupted script."""
QUESTION = ["Shall the training go on"]
"""Text that answers the first of two keys."""
NEVER = "(?!)"
"""Pattern that no text holds."""
SCRIPT = """
import keras
import numpy as np

model = keras.Sequential([keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(np.ones([320, 4], "float32"), np.ones([320, 1], "float32"), epochs=100_000, verbose=2)
"""


class Typed(NamedTuple):
    """One command: the text that it must show, and the keys that end it."""

    shows: str
    keys: str = "q"
    status: int = 0
    is_slow: bool = False


TYPED = {
    "./scripts/demo": Typed(r"steps/s", is_slow=True),
    "./scripts/demo --slow worker:1=60ms": Typed(r"steps/s", is_slow=True),
    "tfscale-console run -- python train.py": Typed(r"steps/s", keys="qs", is_slow=True),
    "tfscale-console run --workers 2 -- python train.py": Typed(r"steps/s", keys="qs", is_slow=True),
    "tfscale-agent -- python train.py": Typed("Epoch 2/", keys=CTRL_C, status=INTERRUPTED, is_slow=True),
    "tfscale-agent --cluster cluster.toml -- python train.py": Typed(r"process \d+ reports", keys=CTRL_C, is_slow=True),
    "tfscale-console --simulate 64 --fault worker:3=40ms,input@10s": Typed("worker:3"),
    "tfscale-train run digits --strategy mirrored --replicas 2": Typed(
        "step 100: mean loss", keys=CTRL_C, status=INTERRUPTED, is_slow=True
    ),
}
ELSEWHERE = {
    "./scripts/test": "runs this test",
    "pip install .": "needs the package registry; ./scripts/environment installs the checkout before any test",
    "pip install '.[demo]'": "needs the package registry; ./scripts/environment installs the checkout before any test",
    "tfscale-console --once": "needs a run beside it: ways_in/test_newcomer.py",
    "tfscale-console --slurm": "needs a job of Slurm: slurm/test_slurm.py",
    "tfscale-console watch": "needs runs that come and go: watching/test_watch.py",
    "tfscale-console compare base new --across program": "needs recorded runs: comparing/test_gate.py",
    "tfscale-train compare --set batch=32,64 -- python train.py --batch {batch}": "comparing/test_compare.py",
    "tfscale-train compare --set precision=float32,mixed_bfloat16 -- python train.py": "comparing/test_compare.py",
    "tfscale-train compare --against HEAD~1 -- python train.py": "comparing/test_compare.py",
    "tfscale-train advise": "needs a run beside it: scaling/test_advice.py",
    "tfscale-train batch -- python train.py --batch {batch}": "comparing/test_batch.py",
    "tfscale-train scale -- python train.py": "scaling/test_scale.py",
}


def printed(text: str) -> list[str]:
    """Return the commands of a page: lines that are set as code, and code that begins with a program of ours or pip."""
    set_as_code = [line.partition("#")[0].strip() for line in text.splitlines() if line.startswith("    ")]
    inline = re.findall(r"`((?:tfscale-\w+|\./scripts/\w+|pip) ?[^`]*)`", text)
    return [*set_as_code, *inline]


def typed(command: str, folder: Path, expected: Typed) -> tuple[str, int | None]:
    """Type a command into a terminal of its own, wait for what it shows, press the keys; return screen and status."""
    keyboard, terminal = pty.openpty()
    # The command's own session has this terminal, so that ctrl-C in it is the signal that a person sends.
    process = subprocess.Popen(
        ["setsid", "--ctty", "--wait", "bash", "-c", f"trap : INT; stty rows 40 cols 150; {command}"],
        cwd=ROOT if command.startswith("./") else folder,
        env=os.environ | _environment(folder),
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
    )
    os.close(terminal)
    shown = ""
    try:
        shown = _read(keyboard, process, PATIENCE, expected.shows)
        for key, then in zip(expected.keys, [*QUESTION[: len(expected.keys) - 1], NEVER], strict=True):
            os.write(keyboard, key.encode())
            shown += _read(keyboard, process, PATIENCE, then)
        return shown, process.wait(10)
    finally:
        os.close(keyboard)
        process.kill()
        process.wait()


def _environment(folder: Path) -> dict[str, str]:
    places = {f"XDG_{name}": str(folder / name) for name in ("RUNTIME_DIR", "STATE_HOME", "CONFIG_HOME")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return places | {"PATH": path, "TMPDIR": str(folder), "TERM": "xterm-256color", "CUDA_VISIBLE_DEVICES": ""}


def _read(keyboard: int, process: subprocess.Popen[bytes], seconds: float, until: str = NEVER) -> str:
    """Read what the terminal shows until it holds a pattern, the process has ended, or the time is over."""
    shown, ends = "", time.monotonic() + seconds
    while time.monotonic() < ends and not re.search(until, shown):
        if select.select([keyboard], [], [], 0.1)[0]:
            try:
                shown += os.read(keyboard, 1 << 16).decode(errors="replace")
            except OSError:
                break
        elif process.poll() is not None:
            break
    return shown


def left(folder: Path) -> list[list[str]]:
    """Return the commands of the processes that still have the environment of `folder`."""
    return [process.cmdline() for process in _started(folder)]


def _started(folder: Path) -> Iterator[psutil.Process]:
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get("TMPDIR") == str(folder) and process.status() != psutil.STATUS_ZOMBIE:
                yield process


@pytest.fixture
def folder(command: str, tmp_path: Path) -> Iterator[Path]:
    """Return a folder with a script, and with a cluster file where the command names one."""
    worker, agent = free_addresses(2)
    (tmp_path / "train.py").write_text(SCRIPT)
    if "--cluster" in command:
        (tmp_path / "cluster.toml").write_text(f'[cluster]\nworker = ["{worker}"]\n[agents]\n"worker:0" = "{agent}"\n')
    yield tmp_path
    for process in _started(tmp_path):
        process.kill()


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    "command", [pytest.param(each, marks=pytest.mark.slow if row.is_slow else ()) for each, row in TYPED.items()]
)
def test_a_command_of_the_readme_does_what_it_says(command: str, folder: Path) -> None:
    expected = TYPED[command]
    shown, status = typed(command, folder, expected)
    assert re.search(expected.shows, shown), shown
    assert status == expected.status, shown
    wait_until(lambda: not left(folder))


def test_every_command_of_the_readme_is_typed_or_has_a_reason() -> None:
    assert set(printed(README.read_text())) == {*TYPED, *ELSEWHERE}
