"""Every script imports modules that exist: each prints its help."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[1] / "scripts"
PROGRAMS = [
    *(f"bench/{name}.py" for name in ("console", "diagnosis", "probe", "stragglers")),
    *(f"docs/{name}.py" for name in ("cells", "compat", "pictures", "versions")),
    "demo_cluster.py",
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_script_prints_its_help(program: str) -> None:
    done = subprocess.run([sys.executable, SCRIPTS / program, "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage: ")
