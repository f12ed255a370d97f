"""Facts of programs of which none is run."""

from __future__ import annotations

import hashlib
import os
import sys
from importlib import metadata
from pathlib import Path

import pytest
from tfscale.agent.preflight.program_facts import program_facts

VERSION = ".".join(map(str, sys.version_info[:3]))


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(f"#!{sys.executable}\nraise SystemExit('it was run')\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    "command",
    [
        (sys.executable, "train.py"),
        (sys.executable, "-u", "train.py", "--data", "other.py"),
        ("nice", "-n", "5", sys.executable, "train.py"),
        ("./train.py", "--epochs", "3"),
    ],
)
def test_versions_and_script_are_those_of_the_command(script: Path, command: tuple[str, ...]) -> None:
    found = program_facts(command, str(script.parent), os.environ)
    assert (found.python, found.problem) == (VERSION, "")
    assert Path(script.parent, found.script) == script
    assert found.script_hash == hashlib.sha256(script.read_bytes()).hexdigest()
    assert found.keras == metadata.version("keras")


def test_a_python_is_found_on_the_path_of_the_program(tmp_path: Path) -> None:
    (tmp_path / "python3").symlink_to(sys.executable)
    found = program_facts(("python3", "-m", "job"), None, {"PATH": str(tmp_path)})
    assert (found.interpreter, found.script, found.script_hash) == (str(tmp_path / "python3"), "", "")
    assert found.python == VERSION


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ("#!/bin/sh\necho no module >&2; exit 1\n", "python3 does not tell its versions: no module"),
        ("#!/bin/sh\nexit 3\n", "python3 does not tell its versions: exit status 3"),
        ("#!/bin/sh\nexec sleep 60\n", "python3 has not told its versions in 0.3 s"),
    ],
)
def test_a_python_that_does_not_answer_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: str, problem: str
) -> None:
    monkeypatch.setattr("tfscale.agent.preflight.program_facts._PATIENCE", 0.3)
    python = tmp_path / "python3"
    python.write_text(lines)
    python.chmod(0o755)
    assert program_facts((str(python), "train.py"), None, os.environ).problem.endswith(problem)


def test_a_program_without_a_python_and_one_that_is_not_there() -> None:
    assert program_facts(("sleep", "60"), None, os.environ).problem.startswith("no Python in the command (sleep)")
    assert "cannot be started" in program_facts(("/nowhere/python",), None, os.environ).problem
