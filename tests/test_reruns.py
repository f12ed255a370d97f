"""Reports of several processes of tests: a second run is counted once, a logged text ends none, and an end is told."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from plugins import matrix_runs

FLAKY = """
from pathlib import Path

def test_flaky(request):
    seen = Path(request.config.rootpath, "seen")
    was_there = seen.exists()
    seen.touch()
    assert was_there
"""
LOGS = r"""
import logging

def test_a_name_that_is_no_utf_8():
    logging.warning("started %s", "caf\udce9")
"""

BROKEN = r"""
import pytest

class Broken:
    def pytest_runtest_logreport(self, report):
        raise OSError("an error of a plugin")

@pytest.fixture(scope="session", autouse=True)
def broken(request):
    request.config.pluginmanager.register(Broken())

def test_it():
    pass
"""


def run(test: str, processes: str, folder: Path) -> subprocess.CompletedProcess[bytes]:
    """Run a test with the fixtures of all tests."""
    for name, text in {
        "pytest.ini": "[pytest]\nmarkers = matrix: marked\n",
        "conftest.py": Path(__file__).with_name("conftest.py").read_text(),
        "test_it.py": test,
    }.items():
        (folder / name).write_text(text)
    variables = {"PYTHONPATH": str(Path(matrix_runs.__file__).parents[1]), "TFSCALE_RERUNS": str(folder / "reruns")}
    command = [sys.executable, "-m", "pytest", "-n", processes, "--reruns", "1"]
    return subprocess.run(command, cwd=folder, env=os.environ | variables, capture_output=True, check=False)


def require_pass(done: subprocess.CompletedProcess[bytes]) -> None:
    assert done.returncode == 0 and b"1 passed" in done.stdout, done.stdout


def test_logged_text_need_not_be_utf_8(tmp_path: Path) -> None:
    require_pass(run(LOGS, "1", tmp_path))


@pytest.mark.parametrize("processes", ["0", "2"])
def test_a_rerun_is_written_down_once(processes: str, tmp_path: Path) -> None:
    require_pass(run(FLAKY, processes, tmp_path))
    assert (tmp_path / "reruns").read_text() == "test_it.py::test_flaky\n"


@pytest.mark.parametrize("processes", ["0", "1"])
def test_an_internal_error_is_no_success(processes: str, tmp_path: Path) -> None:
    done = run(BROKEN, processes, tmp_path)
    assert b"INTERNALERROR" in done.stdout and done.returncode == pytest.ExitCode.INTERNAL_ERROR, done.stdout
