"""Wrong uses of `tfscale-train run`: one clear line, exit status 1 or 2, and no process that stays."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from training.train_command import left

pytestmark = [pytest.mark.tensorflow, pytest.mark.slow]

TRAIN = Path(sys.executable).parent / "tfscale-train"
MIRRORED = ("--strategy", "mirrored", "--replicas", "2")
SHORT = ("--steps", "2")


def run(*words: str | Path, before: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    """Run `tfscale-train run` with these words; `before` is shell code that runs in the same process first."""
    return subprocess.run(
        ["bash", "-c", f'{before}\nexec "$0" run "$@"', TRAIN, *words],
        env=os.environ | {"CUDA_VISIBLE_DEVICES": ""} | variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def refusal(ended: subprocess.CompletedProcess[str], status: int = 2) -> str:
    """Return the one line that says why a run has ended; the two of its cluster may come before it."""
    assert ended.returncode == status, ended.stderr
    lines = ended.stderr.splitlines()
    if lines[0].endswith("watch them:"):
        (line,) = lines[2:]
        assert left(ended.stderr) == []
    else:
        # As a task itself, whose log has lines of TensorFlow besides.
        (line,) = [line for line in lines if line.startswith("tfscale-train: ")]
        assert "Traceback" not in ended.stderr
    return line


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("digits", "--global-batch", "62", "--with", "accumulation=4"), "--with: .*62.*4"),
        (("digits", "--with", "memory=growth"), "--with: there is no GPU here"),
        (("digits", *MIRRORED, "--global-batch", "65"), "--global-batch 65: not divisible by 2 replicas"),
        (("digits", "--batch", "5000"), "--batch: 5000 examples a replica, and digits has 1618 to train on"),
        (("digits", *MIRRORED, "--batch", "810"), "to train on: at most 809, since 2 replicas share them"),
        (("digits", "--strategy", "multi-worker", "--batch", "810"), "at most 809, since 2 replicas share them"),
        (("digits", "--strategy", "mirrored", "--devices", "CPU:7"), "mirrored: --devices CPU:7: CPU:7 not here"),
    ],
)
def test_what_only_tensorflow_knows_is_refused_in_one_line(words: tuple[str, ...], said: str) -> None:
    assert re.search(said, refusal(run(*words)))


@pytest.mark.parametrize(
    ("folder", "said"),
    [
        ("/proc/nowhere", "--checkpoints /proc/nowhere: "),
        ("/dev/null/x", "--checkpoints /dev/null/x: /dev/null is no folder"),
    ],
)
def test_a_folder_that_cannot_be_made_is_named(folder: str, said: str) -> None:
    assert said in refusal(run("digits", *SHORT, "--checkpoints", folder))


@pytest.mark.parametrize("text", ["{", '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 7}}'])
def test_a_wrong_tf_config_is_refused(text: str) -> None:
    assert "TF_CONFIG: " in refusal(run("asynchrony", TF_CONFIG=text))


@pytest.mark.parametrize("before", ["exec 1>&-", "exec 1>/dev/full"])
def test_a_result_that_nobody_can_read_ends_the_run_in_order(before: str) -> None:
    ended = run("digits", *SHORT, before=before)
    assert ended.returncode in (0, 1) and "Traceback" not in ended.stderr, ended.stderr
    assert left(ended.stderr) == []
