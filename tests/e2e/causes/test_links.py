"""Three real workers on hosts of their own: a slow link and a cut one, each named while it lasts."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import net_hosts
import pytest
from local_cluster import end, start_agent
from recording import Recording

pytestmark = pytest.mark.alone

PROGRAM = Path(__file__).parents[1] / "programs" / "causes" / "causes.py"
WORKERS = 3
CONSOLE = WORKERS
"""Host of the console."""


@pytest.fixture
def out(tmp_path: Path) -> Iterator[Path]:
    """Train on three hosts, and yield the file of a console on a fourth one."""
    cluster = tmp_path / "cluster.toml"
    addresses = [f"{net_hosts.address(host)}:2222" for host in range(WORKERS)]
    cluster.write_text(f"[cluster]\nworker = {json.dumps(addresses)}\n")
    variables = {"TF_NUM_INTRAOP_THREADS": "1", "TFSCALE_INSECURE": "1"}
    written = tmp_path / "run.jsonl"
    flags = ["--cluster", cluster, "--insecure", "--headless", "--out", written]
    with net_hosts.hosts(WORKERS + 1):
        agents = [
            start_agent(
                tmp_path, cluster, host, [sys.executable, PROGRAM, "plain"], variables, before=net_hosts.inside(host)
            )
            for host in range(WORKERS)
        ]
        words = [*net_hosts.inside(CONSOLE), sys.executable, "-m", "tfscale.console.cli", *flags]
        console = subprocess.Popen(words)
        yield written
        console.terminate()
        console.wait(10)
        end(agents)


def until(out: Path, kind: str, seconds: float) -> dict[str, Any]:
    """Return the first diagnosis of a kind, once it is told; raises AssertionError where it is not in time."""
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        if out.exists() and (told := Recording.read(out).told(kind)):
            return told[0]
        time.sleep(0.2)
    raise AssertionError(f"no {kind} in {seconds} s: {Recording.read(out).diagnoses}")


def steps_of(out: Path) -> int:
    return len(Recording.read(out).steps.get("worker:0", {"end": ()})["end"]) if out.exists() else 0


@pytest.mark.slow
@pytest.mark.tensorflow
@pytest.mark.skipif(net_hosts.missing() != "", reason=net_hosts.missing())
def test_a_slow_link_and_then_a_host_that_is_cut_off_are_named_within_ten_seconds(out: Path) -> None:
    limit = time.monotonic() + 120
    while steps_of(out) < 30:
        assert time.monotonic() < limit
        time.sleep(0.5)
    net_hosts.slow(1, 60e6)
    began = time.time()
    slow = until(out, "slow_link", 12)
    assert (slow["subject"], slow["evidence"]["receiver"]) == ("worker:1", "worker:2")
    assert abs(slow["begin"] - began) < 3
    # Headers take 5 % of the link.
    assert 40e6 < 8 * slow["evidence"]["speed"] < 65e6
    net_hosts.free(1)
    net_hosts.cut(2)
    began = time.time()
    cut = until(out, "cut_off", 12)
    assert cut["subject"] == "worker:2" and abs(cut["begin"] - began) < 3
    assert cut["sentence"].startswith("worker:2's host does not answer to anyone: it is cut off or down since ")
