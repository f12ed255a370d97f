"""`tfscale-train batch` of a script that knows nothing of it, as a user types it."""

from __future__ import annotations

import csv
import json
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import measuring_command
import pytest
from measuring_command import TRAIN, is_clean

pytestmark = [pytest.mark.tensorflow, pytest.mark.slow]

SCRIPT = str(Path(__file__).parents[1] / "programs/compared.py")
STILL = ("--pause", "0.4", "--epochs", "1000")
"""Words with which a step takes as long for each size, so that the largest one is the fastest."""


def start(folder: Path, flags: Sequence[str], *command: str) -> subprocess.Popen[str]:
    """Start a search."""
    return measuring_command.start(folder, [TRAIN, "batch", *flags, "--", *command], CUDA_VISIBLE_DEVICES="")


def test_memory_ends_the_search_and_the_choice_has_head_room(short_path: Path) -> None:
    flags = ["--start", "64", "--steps", "20", "--json", "out.json", "--csv", "out.csv"]
    ended = start(short_path, flags, sys.executable, SCRIPT, "--batch", "{batch}", "--room", "100", *STILL)
    told, errors = ended.communicate(timeout=900)
    assert ended.returncode == 0, errors
    result = json.loads((short_path / "out.json").read_text())
    sizes = {each["batch"]: each for each in result["sizes"]}
    assert [size for size, each in sizes.items() if each["out_of_memory"]] == [112, 128]
    assert "MemoryError" in sizes[128]["reason"] and sizes[64]["examples"] == 64
    # With 96 + 10 % it is out of memory, too.
    assert result["batch"] == 80 and result["head_room"] and result["head_room_run"]["setting"] == "head-room 88"
    assert "take batch 80: " in told and "larger ones have no head-room of 10%" in told
    assert "batch 106 (head-room): exit status 1: " in errors
    with (short_path / "out.csv").open() as file:
        assert [row["batch"] for row in csv.DictReader(file)] == ["64", "80", "96", "112", "128"]
    assert is_clean(short_path) and not list((short_path / "state").rglob("*.jsonl"))


def test_what_ctrl_c_ends_goes_on_and_the_rate_grows_with_the_size(short_path: Path) -> None:
    command = [sys.executable, SCRIPT, "--batch", "{batch}", "--rate", "{rate}", *STILL]
    flags = ["--start", "50", "--max", "60", "--steps", "20", "--rate", "0.01"]
    ended = start(short_path, flags, *command)
    assert ended.stderr is not None
    lines = [ended.stderr.readline(), ended.stderr.readline()]
    assert lines[1].startswith("batch 50: ")
    ended.send_signal(signal.SIGINT)
    told, errors = ended.communicate(timeout=60)
    assert ended.returncode == 130
    assert (
        "the same command goes on after 1 run" in errors
        and "so far batch 50, not run with 10% more examples yet" in told
    )
    assert is_clean(short_path)
    again = start(short_path, flags, *command)
    told, errors = again.communicate(timeout=600)
    assert again.returncode == 0, errors
    assert "goes on after 1 run of an earlier call" in errors.splitlines()[0]
    assert not any(line.startswith("batch 50: ") for line in errors.splitlines())
    assert re.search(r"^take batch \d+: ", told, re.MULTILINE) and " ran as well, with " in told
    assert {float(word) for word in (short_path / "rates").read_text().split()} >= {0.01, 0.012}


def test_a_worker_that_is_out_of_memory_decides_for_all(short_path: Path) -> None:
    # Worker 1 alone has little room.
    script = """case "$TF_CONFIG" in *'"index": 1'*) room=38;; esac; exec "$@" --room ${room:-999}"""
    words = ["sh", "-c", script, "sh", sys.executable, SCRIPT, "--batch", "{batch}", *STILL]
    flags = ["--workers", "2", "--start", "64", "--max", "64", "--steps", "20", "--json", "out.json"]
    ended = start(short_path, flags, *words)
    told, errors = ended.communicate(timeout=900)
    assert ended.returncode == 0, errors
    assert "batch 64: out of memory: worker:1: exit status 1: " in told and "ran as well, with" in told
    assert json.loads((short_path / "out.json").read_text())["batch"] == 32
    assert is_clean(short_path)


def test_a_command_that_does_not_use_the_size_is_told(short_path: Path) -> None:
    ended = start(short_path, ["--steps", "20"], sys.executable, SCRIPT, "--epochs", "{batch}", "--pause", "0.05")
    _, errors = ended.communicate(timeout=300)
    assert ended.returncode == 1
    assert "a step has 32 examples with batch 64 as with 32: the command does not use {batch}" in errors
    assert is_clean(short_path)
