"""A real cluster of three hosts with a fault: `--once`, asked later, names what the console says that was there."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import net_hosts
import pytest
from incidents.cluster import PATIENCE, SETTLED, Cluster, running
from incidents.incident import Setup

pytestmark = [pytest.mark.alone, pytest.mark.tensorflow]

ASKED = (10.0, 30.0, 60.0)
"""Seconds from the onset to each question."""
TRAINS = r"^healthy: |^communication-bound"
"""Sentences of the console before the fault: of three workers on two cores it says the one or the other."""
LIMIT = 8.0
"""Seconds that a question may take where one agent is out of reach; 5 where none is."""
FAULTS: dict[str, Callable[[Cluster], object]] = {
    "slow link": lambda cluster: net_hosts.slow(cluster.host("worker:1"), 60e6),
    "slow link of the last worker": lambda cluster: net_hosts.slow(cluster.host("worker:2"), 40e6),
    "stopped": lambda cluster: cluster.signal("worker:1", signal.SIGSTOP),
    "cut": lambda cluster: net_hosts.cut(cluster.host("worker:2")),
    "pauses": lambda cluster: cluster.order("worker:2", "garbage"),
}


def once(cluster: Cluster) -> tuple[dict[str, Any], int, float]:
    """Return the snapshot for a script, its exit status, and the seconds that it took."""
    words = [sys.executable, "-m", "tfscale.console.cli", "--once", "--insecure", "--cluster"]
    begin = time.monotonic()
    done = subprocess.run(
        [*net_hosts.inside(cluster.host("console")), *words, cluster.folder / "cluster.toml"],
        capture_output=True,
        check=False,
    )
    return json.loads(done.stdout), done.returncode, time.monotonic() - begin


def words_of(sentence: str) -> str:
    """Return a sentence up to the first number that is not a task's: what it names."""
    return re.split(r"(?<![:\w])\d", sentence)[0]


@pytest.mark.skipif(net_hosts.missing() != "", reason=net_hosts.missing())
@pytest.mark.parametrize(
    "fault",
    # A fault takes two minutes: the one of which most is forgotten first in each run of CI, the others in turn.
    [pytest.param(fault, marks=pytest.mark.slow if fault == "slow link" else pytest.mark.matrix) for fault in FAULTS],
)
def test_who_asks_late_is_told_what_one_knows_that_was_there(fault: str, tmp_path: Path) -> None:
    with running(tmp_path, Setup(variables={"WIDTH": "1024"})) as cluster:
        assert cluster.until(TRAINS, PATIENCE)
        time.sleep(SETTLED)
        FAULTS[fault](cluster)
        begin = time.time()
        for seconds in ASKED:
            time.sleep(max(0.0, begin + seconds - time.time()))
            snapshot, status, took = once(cluster)
            live = [heard for heard in cluster.heard() if heard["at"] <= snapshot["time"]][-1]
            print(f"{fault}, {seconds:.0f} s: {took:.1f} s, {status}, {snapshot['age']:.1f} s old", flush=True)
            print(f"  live: {live['sentence']}\n  once: {snapshot['headline']}", flush=True)
            assert words_of(snapshot["headline"]) == words_of(live["sentence"]), seconds
            assert snapshot["age"] < 3 and took < LIMIT
