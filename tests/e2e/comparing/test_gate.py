"""`tfscale-console compare` of runs that really trained: recordings, and results of `tfscale-train run`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.tensorflow, pytest.mark.slow]

BIN = Path(sys.executable).parent
SCRIPT = Path(__file__).parents[1] / "programs/compared.py"


def run(folder: Path, *words: object) -> subprocess.CompletedProcess[str]:
    own = {"XDG_STATE_HOME": str(folder / "state"), "CUDA_VISIBLE_DEVICES": ""}
    words = (BIN / str(words[0]), *words[1:])
    return subprocess.run(
        [*map(str, words)], env=os.environ | own, cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )


def test_recorded_runs_that_became_slower_fail(tmp_path: Path) -> None:
    for name, pause in {"before": "0.1", "after": "0.5"}.items():
        (tmp_path / name).mkdir()
        for number in range(3):
            kept = ("--headless", "--out", "/dev/null", "--record", f"{name}/{number}.tfrec")
            script = (sys.executable, SCRIPT, "--batch", "256", "--pause", pause)
            made = run(tmp_path, "tfscale-console", "run", *kept, "--", *script)
            assert made.returncode == 0, made.stderr
    refused = run(tmp_path, "tfscale-console", "compare", "before", "after")
    assert refused.returncode == 2 and "not comparable: program differs: command is " in refused.stderr
    failed = run(tmp_path, "tfscale-console", "compare", "before", "after", "--across", "program")
    assert failed.returncode == 3, failed.stdout + failed.stderr
    assert failed.stdout.startswith("failed: 3 runs against 3 runs") and "worker:0  host" in failed.stdout
    single = run(tmp_path, "tfscale-console", "compare", "before/0.tfrec", "before/1.tfrec")
    assert single.returncode == 5 and "give a folder of three or more runs for each side" in single.stdout


def test_results_that_became_slower_fail(tmp_path: Path) -> None:
    for name, slow in {"before": "0.1s", "after": "0.5s"}.items():
        (tmp_path / name).mkdir()
        for number in range(3):
            words = ("run", "digits", "--steps", "30", "--json", f"{name}/{number}.json")
            made = run(tmp_path, "tfscale-train", *words, "--slow", f"worker:0={slow}")
            assert made.returncode == 0, made.stderr
    failed = run(tmp_path, "tfscale-console", "compare", "before", "after")
    assert failed.returncode == 3, failed.stdout + failed.stderr
