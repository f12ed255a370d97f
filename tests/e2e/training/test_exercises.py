"""The commands of docs/start/five-exercises.md: each runs, and prints what the page shows but for its numbers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from training.train_command import left

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "start" / "five-exercises.md").read_text(encoding="utf-8")
BIN = Path(sys.executable).parent
PROGRESS = re.compile(r"(?:step|epoch) \d+: .*")
OTHERS = re.compile(r"[IWE]0000 |WARNING: |To enable the following instructions")
"""Lines that TensorFlow adds to the output of a script."""


@dataclass(frozen=True)
class Run:
    """A command of the page, what it prints there, and what consoles show of it, by their commands."""

    command: str
    printed: str
    looks: list[tuple[str, str]] = field(default_factory=list)


def runs() -> list[Run]:
    found: list[Run] = []
    for command, printed in re.findall(r"^```console\n\$ (.*?)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL):
        if command.startswith("tfscale-console"):
            found[-1].looks.append((command, printed))
        else:
            found.append(Run(command, printed))
    return found


def shape(text: str) -> list[str]:
    """Return the lines without numbers and without names that are other ones each time."""
    text = re.sub(r"\S*tfscale-run-\w+", "FOLDER", re.sub(r"mirrored-[0-9a-f]{8}", "NAME", text))
    return [re.sub(r"\d[\d.,]*", "#", line) for line in text.splitlines() if not OTHERS.match(line)]


def code(page: Path, holds: str) -> str:
    """Return the Python block of a page that holds a text."""
    blocks = re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return str(next(block for block in blocks if holds in block))


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "my_model.py").write_text(code(DOCS / "how-to" / "train.md", "build_model(keras)"))
    (tmp_path / "mirrored.py").write_text(code(DOCS / "start" / "five-exercises.md", "MirroredStrategy()"))
    (look,) = re.findall(r"^    LOOK='(.*)'$", PAGE, re.MULTILINE)
    # Consoles look for runs in both folders.
    own = {"XDG_RUNTIME_DIR": str(tmp_path), "TMPDIR": str(tmp_path)}
    path = f"{BIN}:{os.environ['PATH']}"
    return os.environ | own | {"PATH": path, "CUDA_VISIBLE_DEVICES": "", "LOOK": look}


@pytest.mark.tensorflow
@pytest.mark.alone
@pytest.mark.matrix
@pytest.mark.parametrize("run", runs(), ids=lambda run: run.command)
def test_a_command_prints_what_the_page_shows(run: Run, environment: dict[str, str], tmp_path: Path) -> None:
    with subprocess.Popen(
        run.command,
        shell=True,
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        told = ""
        while len(PROGRESS.findall(told)) < len(PROGRESS.findall(run.printed)) // 4 and (
            line := process.stdout.readline()
        ):
            told += line
        for look, lines in run.looks:
            cluster = re.findall(r"--cluster \S+", told)
            looked = subprocess.run(
                re.sub(r"--cluster \S+", *cluster, look) if cluster else look,
                shell=True,
                env=environment,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            assert shape(looked.stdout)[1:] == shape(lines)[1:], looked.stdout + looked.stderr
            if "input-bound" in lines:
                assert "input-bound" in looked.stdout.splitlines()[0]
        told += process.communicate(timeout=300)[0]
        assert process.returncode == 0, told
    assert shape(told) == shape(run.printed)
    assert "tfscale-run" not in told or left(told) == []


def test_there_are_five() -> None:
    assert re.findall(r"^## (\d)\. ", PAGE, re.MULTILINE) == ["1", "2", "3", "4", "5"]
    assert [len(run.looks) for run in runs()] == [1, 1, 1, 1, 1, 1, 0]
