"""Real faults of one of two real TensorFlow workers, and what is said of them."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from local_cluster import running, write_cluster
from recording import Recording

PROGRAM = Path(__file__).parent / "programs" / "causes.py"


@contextlib.contextmanager
def watched(folder: Path) -> Iterator[Path]:
    """Both workers under agents, and a console that writes what it says of them to the path that this yields."""
    cluster, out = write_cluster(folder, 2), folder / "run.jsonl"
    console = ["-m", "tfscale.console.cli", "--cluster", cluster, "--headless", "--out", out]
    with running(folder, cluster, 2, [sys.executable, PROGRAM], {"TF_NUM_INTRAOP_THREADS": "1"}):
        watching = subprocess.Popen([sys.executable, *console])
        try:
            yield out
        finally:
            watching.terminate()
            watching.wait(10)


def told(out: Path, kind: str, seconds: float, **evidence: Any) -> dict[str, Any]:
    """The first diagnosis of a kind that has this in its evidence."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for each in Recording.read(out).told(kind) if out.exists() else []:
            if evidence.items() <= each["evidence"].items():
                return each
        time.sleep(0.5)
    raise AssertionError(out.read_text()[-3000:])


@pytest.mark.tensorflow
def test_a_worker_with_more_examples_has_uneven_work(tmp_path: Path) -> None:
    with watched(tmp_path) as out:
        straggler = told(out, "straggler", 90, cause="uneven")
    assert straggler["subject"] == "worker:1"
    assert straggler["evidence"]["phase"] == "compute"
    assert straggler["evidence"]["examples"] == 2 * straggler["evidence"]["examples_of_peers"]
    assert "it has 2x the examples of its peers in each step" in straggler["sentence"]
