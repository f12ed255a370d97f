"""First way in, in an environment that has no package: none of ours comes with it."""

from __future__ import annotations

import os
import subprocess
import venv
from collections.abc import Sequence
from pathlib import Path

import pytest
from tfscale.agent.supervision.task_environment import probe_portions, probe_site

OURS = ("cryptography", "google.protobuf", "grpc", "jinja2", "numpy", "platformdirs", "psutil", "textual", "zstandard")
LOOK = f"""
import importlib, sys
for name in {OURS}:
    try:
        print(name, importlib.import_module(name).__file__)
    except ModuleNotFoundError:
        print(name, "is not there")
import tfscale.trainer.probe.entry.imports
print(*sys.path[1:], sep="\\n")
"""


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """Return the Python of an environment without packages, as uv makes them: not even pip is there."""
    venv.create(tmp_path / "venv", symlinks=True)
    return tmp_path / "venv" / "bin" / "python"


def said(python: Path, folder: Path, before: Sequence[str] = ()) -> list[str]:
    """Return what a script prints that an agent starts in this folder, with these words before its command."""
    script = folder / "script.py"
    script.write_text(LOOK)
    ours = {
        "TFSCALE_REPORT": "/nowhere",
        "TFSCALE_PROBE_PATH": os.pathsep.join(probe_portions()),
        "PYTHONPATH": str(probe_site()),
        "PATH": os.environ["PATH"],
    }
    done = subprocess.run([*before, python, script], env=ours, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_no_package_of_the_agent_is_there_for_the_script(python: Path, tmp_path: Path) -> None:
    lines = said(python, tmp_path)
    assert lines[: len(OURS)] == [f"{name} is not there" for name in OURS]
    # The way in is a folder with names of its own; the agent's packages are in none that the script reads.
    own = [folder for folder in lines[len(OURS) :] if str(tmp_path) not in folder and "lib/python3" not in folder]
    assert [folder for folder in own if not folder.endswith(".zip")] == [probe_site()]
    modules = {path.stem for path in Path(str(probe_site())).glob("*.py")}
    assert modules == {"sitecustomize", "tfscale_probe", "tfscale_way_in"}


def test_packages_of_the_script_win(python: Path, tmp_path: Path) -> None:
    for name in OURS:
        path = tmp_path.joinpath(*name.split("."))
        path.mkdir(parents=True)
        (path / "__init__.py").touch()
    assert said(python, tmp_path)[: len(OURS)] == [
        f"{name} {tmp_path.joinpath(*name.split('.'))}/__init__.py" for name in OURS
    ]


@pytest.mark.skipif(os.getuid() != 0, reason="root alone mounts")
def test_an_environment_that_is_read_only_does(python: Path, tmp_path: Path) -> None:
    folder = python.parents[1]
    mounted = f'mount -o bind,ro {folder} {folder} && ! touch {folder}/file 2>&- && exec "$@"'
    lines = said(python, tmp_path, ["unshare", "-m", "sh", "-c", mounted, "sh"])
    assert lines[0] == f"{OURS[0]} is not there"
