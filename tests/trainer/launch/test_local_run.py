"""Words of a run on this machine, of real agents and tasks that are no trainings."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tfscale.trainer.launch import local_run

Run = Callable[[str], int]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """Return a function that runs a script in the place of a program with a command line of its own."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    monkeypatch.setattr(local_run, "BIN", tmp_path)

    def run(script: str) -> int:
        command = tmp_path / "tfscale-train"
        command.write_text(f"#!{sys.executable}\n{script}\n")
        command.chmod(0o700)
        return local_run.run_program_locally("pipeline", {"worker": 1}, ["run", "pipeline"])

    yield run
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_program_that_fails_tells_its_traceback_once(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("print('step 1: loss 2')\nraise ValueError('no luck')") == 1
    out, err = capsys.readouterr()
    assert out == "step 1: loss 2\n"
    assert err.count("Traceback") == 1 and err.count("\nValueError: no luck\n") == 1
    assert err.splitlines()[-1] == "tfscale-train: worker:0 ended early: ValueError: no luck"


def test_a_program_goes_on_after_a_traceback_that_it_caught(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    caught = "try:\n    1 / 0\nexcept ZeroDivisionError:\n    traceback.print_exc()"
    assert run(f"import traceback\n{caught}\nprint('step 1: loss 2')\nprint('done')") == 0
    out, err = capsys.readouterr()
    assert out == "step 1: loss 2\ndone\n" and err.splitlines()[-1] == "ZeroDivisionError: division by zero"


def test_a_program_that_is_killed_is_told_with_the_end_of_its_log(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("import os\nprint('E0000 00:00:1 check failed', flush=True)\nos.kill(os.getpid(), 9)") == 1
    err = capsys.readouterr().err
    assert "tfscale-train: worker:0 ended early: killed by SIGKILL; the end of its log:\n" in err
    assert "check failed" in err


def test_an_agent_that_is_killed_is_told_as_such(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("import psutil\npsutil.Process().parents()[1].kill()") == 1
    assert "tfscale-train: worker:0 ended early: its agent was killed by SIGKILL; " in capsys.readouterr().err


def test_a_program_that_is_interrupted_says_so(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(f"import os, time\nos.kill({os.getpid()}, {int(signal.SIGTERM)})\ntime.sleep(600)") == 130
    line = "tfscale-train: interrupted; nothing was kept, since pipeline makes no checkpoints"
    assert capsys.readouterr().err.splitlines()[-1] == line
