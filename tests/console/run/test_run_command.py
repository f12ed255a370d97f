"""`tfscale-console run --headless` as a person types it, with programs that are no trainings."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

_RUN = (sys.executable, "-m", "tfscale.console.cli", "run", "--headless", "--only", "frames", "--")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    places = {f"XDG_{name}": str(tmp_path / name) for name in ("RUNTIME_DIR", "STATE_HOME", "CONFIG_HOME")}
    variables = os.environ | places | {"TFSCALE_GRACE": "1"}
    return {name: value for name, value in variables.items() if name != "TF_CONFIG"}


def _start(environment: dict[str, str], *program: str) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen([*_RUN, *program], env=environment, stdout=pipe, stderr=pipe, text=True)


def _python(code: str) -> tuple[str, str, str]:
    return sys.executable, "-c", code


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (("no-such-program",), "worker:0 exited 127: cannot be started: 'no-such-program': No such file"),
        (_python("raise KeyError('labels')"), "worker:0 exited 1: KeyError: 'labels'; its log is /"),
    ],
)
def test_a_failure_is_told_in_one_line(program: tuple[str, ...], words: str, environment: dict[str, str]) -> None:
    _, said = (run := _start(environment, *program)).communicate(timeout=120)
    assert run.returncode == 3 and words in said.splitlines()[-1] and "Traceback" not in said


def test_a_program_that_ends_by_itself_is_not_said_to_be_asked(environment: dict[str, str]) -> None:
    _, said = (run := _start(environment, *_python("import time; time.sleep(0.2)"))).communicate(timeout=120)
    assert run.returncode == 0 and "asked to end" not in said


def test_ctrl_c_ends_the_program_and_is_no_success(environment: dict[str, str]) -> None:
    run = _start(environment, *_python("import time; time.sleep(60)"))
    assert run.stdout is not None
    while '"running"' not in run.stdout.readline():
        pass
    run.send_signal(signal.SIGINT)
    _, said = run.communicate(timeout=120)
    assert run.returncode == 1 and said.rstrip().endswith("was ended before it had finished")


@pytest.mark.slow
def test_what_has_ended_is_started_again_and_what_runs_is_joined(environment: dict[str, str], tmp_path: Path) -> None:
    starts, enough = tmp_path / "starts", tmp_path / "enough"
    count, goes_on = f"open({str(starts)!r}, 'a').write('x')", f"while not os.path.exists({str(enough)!r})"
    program = _python(f"import os, time; {count}\n{goes_on}: time.sleep(0.05)")
    first = _start(environment, *program)
    assert first.stdout is not None
    while '"running"' not in first.stdout.readline():
        pass
    first.kill()
    first.communicate()
    joined = _start(environment, *program)
    assert joined.stderr is not None and "runs already" in joined.stderr.readline()
    enough.touch()
    joined.communicate(timeout=120)
    assert joined.returncode == 0
    # Its agent waits for somebody who looks at what has ended.
    again = _start(environment, *program)
    _, said = again.communicate(timeout=120)
    assert "has ended, and is started again" in said and again.returncode == 0
    assert starts.read_text() == "xx"


def test_an_interrupted_start_leaves_nothing(environment: dict[str, str], tmp_path: Path) -> None:
    run = _start(environment, *_python("import time; time.sleep(60)"))
    logs = tmp_path / "STATE_HOME" / "tfscale"
    while not list(logs.glob("*/*.agent.log")):
        time.sleep(0.01)
    run.send_signal(signal.SIGINT)
    _, said = run.communicate(timeout=120)
    assert run.returncode in (1, 130) and "Traceback" not in said
    assert not _processes_of(str(tmp_path))


def _processes_of(folder: str) -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                environment, command = (entry / "environ").read_bytes(), (entry / "cmdline").read_text()
            except OSError:
                continue
            if folder.encode() in environment and command:
                found.append(command)
    return found
