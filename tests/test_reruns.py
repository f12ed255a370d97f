"""A test that needs a second run is counted once, also where several processes run the tests."""

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


@pytest.mark.parametrize("processes", ["0", "2"])
def test_a_rerun_is_written_down_once(processes: str, tmp_path: Path) -> None:
    for name, text in {
        "pytest.ini": "[pytest]\nmarkers = matrix: marked\n",
        "conftest.py": Path(__file__).with_name("conftest.py").read_text(),
        "test_it.py": FLAKY,
    }.items():
        (tmp_path / name).write_text(text)
    variables = {"PYTHONPATH": str(Path(matrix_runs.__file__).parents[1]), "TFSCALE_RERUNS": str(tmp_path / "reruns")}
    command = [sys.executable, "-m", "pytest", "-n", processes, "--reruns", "1"]
    done = subprocess.run(command, cwd=tmp_path, env=os.environ | variables, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout
    assert (tmp_path / "reruns").read_text() == "test_it.py::test_flaky\n"
