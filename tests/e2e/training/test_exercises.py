"""The commands of docs/start/five-exercises.md: each runs, and prints what the page shows but for its numbers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from training.train_command import left

PAGE = Path(__file__).parents[3] / "docs" / "start" / "five-exercises.md"
BIN = Path(sys.executable).parent


def exercises() -> dict[str, str]:
    """Return the text of each exercise by its command."""
    parts = re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return {shown(part)[0][0]: part for part in parts}


def shown(text: str) -> list[tuple[str, str]]:
    """Return the commands in a text, each with what the terminal shows after it."""
    blocks = re.findall(r"^```console\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [re.fullmatch(r"\$ (.*?)\n(.*)", block, re.DOTALL).groups() for block in blocks]  # type: ignore[union-attr]


def shape(text: str) -> list[str]:
    """Return the lines without numbers and without the names of folders that are other ones each time."""
    return [re.sub(r"\d[\d.,]*", "#", re.sub(r"tfscale-run-\w+", "FOLDER", line)) for line in text.splitlines()]


def environment() -> dict[str, str]:
    (look,) = re.findall(r"^    LOOK='(.*)'$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return os.environ | {"PATH": f"{BIN}:{os.environ['PATH']}", "CUDA_VISIBLE_DEVICES": "", "LOOK": look}


@pytest.mark.tensorflow
@pytest.mark.alone
@pytest.mark.matrix
@pytest.mark.parametrize("command", list(exercises()))
def test_a_command_prints_what_the_page_shows(command: str) -> None:
    (_, expected), *looks = shown(exercises()[command])
    with subprocess.Popen(
        command, shell=True, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as run:
        assert run.stderr is not None
        told = "".join(run.stderr.readline() for _ in range(3))
        (cluster,) = re.findall(r"--cluster (\S+)", told)
        for look, lines in looks:
            looked = subprocess.run(
                re.sub(r"--cluster \S+", f"--cluster {cluster}", look),
                shell=True,
                env=environment(),
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            tasks = re.findall(r'"task":"[^"]+"', lines)
            assert re.findall(r'"task":"[^"]+"', looked.stdout) == tasks, looked.stderr
            assert shape(looked.stdout)[1:] == shape(lines)[1:]
            if "--slow" in command:
                assert re.search("worker:1 has been slow .*waiting for data", looked.stdout.splitlines()[0])
        result, rest = run.communicate(timeout=150)
        assert run.returncode == 0, rest
    assert shape(told + rest + result) == shape(expected)
    assert left(told) == []


def test_there_are_five() -> None:
    assert len(exercises()) == 5
