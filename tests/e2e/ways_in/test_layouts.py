"""Environments of other layouts than ours, with TensorFlow and nothing else: a script in them is measured."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from task_cluster import run_workers

pytestmark = [pytest.mark.tensorflow, pytest.mark.slow]

FIT = Path(__file__).parents[1] / "programs" / "mirrored_fit.py"
STEPS = 300
VERSION = f"python{sys.version_info.major}.{sys.version_info.minor}"
BASE = Path(sys.base_prefix)


def needed(name: str, found: set[str]) -> set[str]:
    """Add to `found` this package and all that it needs here, without extras, and return it."""
    try:
        requirements = distribution(name).requires or []
    except PackageNotFoundError:
        return found
    found.add(name)
    for requirement in requirements:
        other = re.split(r"[^\w.-]", requirement)[0]
        if "extra ==" not in requirement and other not in found:
            needed(other, found)
    return found


def link_packages(site: Path) -> None:
    """Fill site-packages with links to TensorFlow and what it needs, as uv does where it may not copy."""
    site.mkdir(parents=True)
    for name in needed("tensorflow", set()):
        package = distribution(name)
        for entry in {file.parts[0] for file in package.files or [] if file.parts[0] != ".."}:
            if entry != "__pycache__" and not (site / entry).exists():
                (site / entry).symlink_to(Path(str(package.locate_file(entry))))


def of_uv(prefix: Path) -> Path:
    """Make a virtual environment as uv does: without pip, and with a line of its own in pyvenv.cfg."""
    link_packages(prefix / "lib" / VERSION / "site-packages")
    (prefix / "bin").mkdir()
    (prefix / "bin" / "python").symlink_to(BASE / "bin" / VERSION)
    (prefix / "pyvenv.cfg").write_text(f"home = {BASE / 'bin'}\nuv = 0.13.9\ninclude-system-site-packages = false\n")
    return prefix / "bin" / "python"


def of_conda(prefix: Path) -> Path:
    """Make an environment as conda does: a whole Python of its own, no virtual environment, no pyvenv.cfg."""
    standard = prefix / "lib" / VERSION
    link_packages(standard / "site-packages")
    for entry in (BASE / "lib" / VERSION).iterdir():
        if entry.name != "site-packages":
            (standard / entry.name).symlink_to(entry)
    for library in (BASE / "lib").glob("libpython*.so*"):
        (prefix / "lib" / library.name).symlink_to(library)
    (prefix / "bin").mkdir()
    shutil.copy(BASE / "bin" / VERSION, prefix / "bin" / VERSION)
    (prefix / "bin" / "python").symlink_to(VERSION)
    return prefix / "bin" / "python"


@pytest.fixture
def read_only() -> Iterator[Callable[[Path], None]]:
    """Return a function that mounts a folder read-only until the test ends."""
    mounted: list[Path] = []

    def mount(folder: Path) -> None:
        subprocess.run(["mount", "--bind", folder, folder], check=True)
        mounted.append(folder)
        subprocess.run(["mount", "-o", "remount,bind,ro", folder], check=True)

    yield mount
    for folder in mounted:
        subprocess.run(["umount", folder], check=True)


def measured(python: Path, folder: Path) -> None:
    """Raise AssertionError unless all steps of a training with this Python are measured, and nothing is said of it."""
    looked = [python, "-c", "import sys; print(sys.prefix)\nimport tfscale"]
    done = subprocess.run(looked, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == str(python.parents[1]) and "No module named 'tfscale'" in done.stderr
    run = run_workers(folder, [python, FIT], 1)
    assert run.steps["worker:0"]["sequence"] == list(range(STEPS))
    assert [*run.told("not_measured"), *run.told("not_fitting")] == []


@pytest.mark.parametrize("make", [of_uv, of_conda])
def test_a_script_in_an_environment_of_another_layout_is_measured(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    measured(make(tmp_path / "environment"), tmp_path)


@pytest.mark.skipif(os.getuid() != 0, reason="root alone mounts")
def test_a_script_in_an_environment_that_nobody_may_write_is_measured(
    tmp_path: Path, read_only: Callable[[Path], None]
) -> None:
    python = of_uv(tmp_path / "environment")
    read_only(tmp_path / "environment")
    with pytest.raises(OSError, match="Read-only"):
        (tmp_path / "environment" / "new").touch()
    measured(python, tmp_path)
