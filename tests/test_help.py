"""Every script imports modules that exist: each prints its help."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[1] / "scripts"
SHARED = [*(str(Path(__file__).parent / folder) for folder in ("harness", "e2e")), str(SCRIPTS / "docs")]
"""Folders of modules that some scripts share with the tests, and which their commands add to the path."""
PROGRAMS = [
    *(f"bench/{name}.py" for name in ("comparison", "console", "diagnosis", "probe", "stragglers", "watch")),
    *(f"bench/agents/{name}.py" for name in ("bench_agents", "bench_restarts")),
    *(
        f"docs/{name}.py"
        for name in (
            "cells",
            "compat_table",
            "fault_table",
            "incident_table",
            "pictures",
            "programs",
            "soak_table",
            "versions",
        )
    ),
    "studies/study.py",
    "demo_cluster.py",
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_script_prints_its_help(program: str) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [*SHARED, os.environ.get("PYTHONPATH")]))}
    command = [sys.executable, SCRIPTS / program, "--help"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage: ")


@pytest.mark.parametrize(("has_all", "takes"), [(True, "taken as it is\n"), (False, "made anew\n")])
def test_the_demo_takes_an_environment_that_has_all(tmp_path: Path, has_all: bool, takes: str) -> None:
    scripts, made = tmp_path / "scripts", tmp_path / ".venv" / "bin"
    scripts.mkdir()
    made.mkdir(parents=True)
    shutil.copy(SCRIPTS / "demo", scripts)
    (scripts / "demo_cluster.py").write_text("print('taken as it is')")
    (scripts / "environment").write_text("#!/bin/sh\n")
    (made / "python").write_text("#!/bin/sh\necho made anew\n")
    for program in (scripts / "environment", made / "python"):
        program.chmod(0o755)
    # The Python of an environment without anything is that from which this one was made.
    python = sys.executable if has_all else str(Path(sys.executable).resolve())
    environment = {**os.environ, "PYTHON": python}
    done = subprocess.run([scripts / "demo"], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == takes
