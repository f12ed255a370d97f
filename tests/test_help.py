"""Every script imports modules that exist: each prints its help."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[1] / "scripts"
SHARED = [str(Path(__file__).parent / folder) for folder in ("harness", "e2e")]
"""Folders of modules that some scripts share with the tests, and which their commands add to the path."""
PROGRAMS = [
    *(f"bench/{name}.py" for name in ("console", "diagnosis", "probe", "stragglers")),
    *(f"bench/agents/{name}.py" for name in ("bench_agents", "bench_restarts")),
    *(
        f"docs/{name}.py"
        for name in (
            "cells",
            "compat",
            "fault_table",
            "incident_table",
            "pictures",
            "programs",
            "soak_table",
            "versions",
        )
    ),
    "demo_cluster.py",
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_script_prints_its_help(program: str) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [*SHARED, os.environ.get("PYTHONPATH")]))}
    command = [sys.executable, SCRIPTS / program, "--help"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage: ")
