"""The advice against a real remedy: what it predicts of links twice as fast, and what these then bring."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import net_hosts
import pytest

BENCH = Path(__file__).parents[3] / "scripts/bench/advice.py"


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.tensorflow
@pytest.mark.skipif(net_hosts.missing() != "", reason=net_hosts.missing())
def test_links_twice_as_fast_bring_what_was_predicted(tmp_path: Path) -> None:
    runs = tmp_path / "runs.jsonl"
    words = [sys.executable, BENCH, runs, "--rounds", "1", "--only", "links x2", "--program", "mlp", "--speed", "4"]
    subprocess.run(words, check=True, timeout=400)
    base, faster = map(json.loads, runs.read_text().splitlines())
    (predicted,) = [each for each in base["advice"]["would_help"] if each["assumes"] == "half the transfer"]
    # A step is nearly all transfer here, so that a busy machine changes little.
    assert 1.5 < predicted["throughput_factor"] < 2
    assert base["quick"] / faster["quick"] == pytest.approx(predicted["throughput_factor"], rel=0.3)
    commands = {each["assumes"]: each["command"] for each in base["advice"]["would_help"]}
    assert commands["half the transfer"] is None
    assert commands["half the bytes"].startswith("tfscale-train compare mlp --strategy multi-worker --steps ")
