"""`tfscale-train compare` of a script that knows nothing of it, as a user types it."""

from __future__ import annotations

import csv
import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import measuring_command
import pytest
from measuring_command import TRAIN, is_clean

pytestmark = [pytest.mark.tensorflow, pytest.mark.slow]

SCRIPT = Path(__file__).parents[1] / "programs/compared.py"


def command(flags: Sequence[str], *words: str) -> list[str]:
    return [TRAIN, "compare", *flags, "--", sys.executable, str(SCRIPT), *words]


def start(folder: Path, flags: Sequence[str], *words: str) -> subprocess.Popen[str]:
    """Start a comparison."""
    return measuring_command.start(folder, command(flags, *words), CUDA_VISIBLE_DEVICES="")


def test_settings_are_judged_and_a_dead_one_is_a_row(short_path: Path) -> None:
    varied = ["--set", "pause=0.1,0.5", "--set", "batch=32,wrong"]
    flags = [*varied, "--steps", "20", "--json", "out.json", "--csv", "out.csv"]
    ended = start(short_path, flags, "--batch", "{batch}", "--pause", "{pause}", "--epochs", "1000")
    told, errors = ended.communicate(timeout=900)
    assert ended.returncode == 0, errors
    settings = {each["setting"]: each for each in json.loads((short_path / "out.json").read_text())["settings"]}
    base, slow = settings["pause=0.1 batch=32"], settings["pause=0.5 batch=32"]
    assert slow["verdict"] == "slower" and slow["low"] > 0 and slow["rounds"] >= 3
    assert slow["step"] > 0.5 > base["step"] > base["quick_step"] > 0.1
    # Keras's loss is told once a second: of the base, whose run takes two or three, none may be known near enough.
    assert slow["loss"] > 0 and base["loss"] != 0
    assert base["memory"] > 1e8 and base["wall"] > base["start"] > 0
    dead = settings["pause=0.1 batch=wrong"]
    assert dead["reason"] == "exit status 1: ValueError: no batch is called wrong" and dead["rounds"] == 0
    assert [run["round"] for run in dead["runs"]] == [0]
    with (short_path / "out.csv").open() as file:
        assert [row["setting"] for row in csv.DictReader(file)] == list(settings)
    assert "the base (pause=0.1 batch=32)" in told
    assert [line for line in errors.splitlines() if line.startswith("round 2: pause=0.5 batch=32: ")]
    assert "best so far: pause=0.1 batch=32, not judged yet" in errors and errors.rstrip().endswith("left")
    assert is_clean(short_path) and not list((short_path / "state").rglob("*.jsonl"))


def test_a_script_that_knows_nothing_is_set_from_outside_and_what_ctrl_c_ends_goes_on(short_path: Path) -> None:
    flags = ["--set", f"SEEN={short_path / 'seen'}", "--set", "precision=none,mixed_bfloat16", "--rounds", "3"]
    ended = start(short_path, flags)
    assert ended.stderr is not None
    lines = [ended.stderr.readline(), ended.stderr.readline()]
    assert lines[1].startswith("round 1: precision=none: ")
    ended.send_signal(signal.SIGINT)
    told, errors = ended.communicate(timeout=60)
    assert ended.returncode == 130
    assert "the same command goes on after 1 run" in errors and "not judged yet" in told
    assert is_clean(short_path)
    again = start(short_path, flags)
    told, errors = again.communicate(timeout=300)
    assert again.returncode in (0, 5), errors
    assert "goes on after 1 run of an earlier call" in errors.splitlines()[0]
    assert "precision=mixed_bfloat16  " in told and is_clean(short_path)
    seen = (short_path / "seen").read_text().split()
    assert (seen.count("float32"), seen.count("bfloat16")) == (3, 3)
    taken = start(short_path, ["--set", "communication=auto,ring"])
    _, errors = taken.communicate(timeout=120)
    assert taken.returncode == 1
    assert "communication: not set from outside, since nothing in the script takes it" in errors


def test_a_run_without_a_step_is_a_row_and_the_time_is_kept(short_path: Path) -> None:
    ended = start(short_path, ["--set", "batch=still,32", "--patience", "5s"], "--batch", "{batch}")
    told, errors = ended.communicate(timeout=120)
    assert ended.returncode == 1, errors
    assert "batch=still: no step within 5.0 s (--patience)" in told
    short = start(
        short_path, ["--set", "batch=still,32", "--budget", "9s", "--patience", "1000s"], "--batch", "{batch}"
    )
    told, errors = short.communicate(timeout=120)
    assert (
        short.returncode == 5 and "no run has ended within --budget 9 s: the same command goes on with more" in errors
    )
    assert is_clean(short_path)


def test_the_base_is_the_code_of_a_commit(short_path: Path) -> None:
    script = short_path / "train.py"
    script.write_text("raise ValueError('of the commit')")
    for words in (["init", "-q"], ["add", "train.py"], ["commit", "-qm", "begin"]):
        subprocess.run(["git", "-c", "user.name=x", "-c", "user.email=x@x", *words], cwd=short_path, check=True)
    script.write_text("raise ValueError('of now')")
    words = [TRAIN, "compare", "--against", "HEAD", "--", sys.executable, "train.py"]
    told, errors = measuring_command.start(short_path, words).communicate(timeout=120)
    assert "code=HEAD: exit status 1: ValueError: of the commit" in told and "of now" not in told, errors
    assert is_clean(short_path)
