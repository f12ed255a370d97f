"""A test that hangs ends, with the stacks of its threads, and the others go on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from plugins import limits

HANGING = """
import asyncio, threading, pytest

def test_a_thread():
    threading.Event().wait()

async def test_a_loop():
    await asyncio.Event().wait()

@pytest.mark.slow
def test_a_slow_one():
    threading.Event().wait(1.0)
"""


def test_a_test_that_hangs_ends_and_the_others_go_on(tmp_path: Path) -> None:
    conftest = Path(__file__).with_name("conftest.py").read_text()
    for name, text in {
        "pytest.ini": "[pytest]\nasyncio_mode = auto\nmarkers =\n  matrix: marked\n  slow: marked\n",
        "conftest.py": f"{conftest}\nlimits.USUAL = 0.5\n",
        "test_it.py": HANGING,
    }.items():
        (tmp_path / name).write_text(text)
    variables = os.environ | {"PYTHONPATH": str(Path(limits.__file__).parents[1])}
    command = [sys.executable, "-m", "pytest"]
    done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=90, check=False)
    assert "2 failed, 1 passed" in done.stdout and "Timeout (>0.5s)" in done.stdout
    assert "threading.Event().wait()" in done.stdout, "the stack"
