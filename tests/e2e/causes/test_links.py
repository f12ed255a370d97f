"""Three real workers on hosts of their own: a slow link and a cut one, each named while it lasts."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import net_hosts
import pytest
from task_cluster import WatchedCluster, watched

pytestmark = pytest.mark.alone

PROGRAM = Path(__file__).parents[1] / "programs" / "causes" / "causes.py"
WORKERS = 3
CONSOLE = WORKERS
"""Host of the console."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[WatchedCluster]:
    """Train on three hosts, watched by a console on a fourth one."""
    file = tmp_path / "cluster.toml"
    addresses = [f"{net_hosts.address(host)}:2222" for host in range(WORKERS)]
    file.write_text(f"[cluster]\nworker = {json.dumps(addresses)}\n")
    variables = {"TF_NUM_INTRAOP_THREADS": "1", "TFSCALE_INSECURE": "1"}
    command, roles = [sys.executable, PROGRAM, "plain"], {"worker": WORKERS}
    with net_hosts.hosts(WORKERS + 1):
        before, console = [net_hosts.inside(host) for host in range(WORKERS)], net_hosts.inside(CONSOLE)
        with watched(
            tmp_path, command, roles, variables, file=file, before=before, console=console, insecure=True
        ) as run:
            yield run


@pytest.mark.slow
@pytest.mark.tensorflow
@pytest.mark.skipif(net_hosts.missing() != "", reason=net_hosts.missing())
def test_a_slow_link_and_then_a_host_that_is_cut_off_are_named_within_ten_seconds(cluster: WatchedCluster) -> None:
    cluster.wait_for(lambda run: len(run.steps.get("worker:0", {"end": ()})["end"]) >= 30, 120)
    net_hosts.slow(1, 60e6)
    began = time.time()
    slow = cluster.told("slow_link", 12)
    assert (slow["subject"], slow["evidence"]["receiver"]) == ("worker:1", "worker:2")
    assert abs(slow["begin"] - began) < 3
    # Headers take 5 % of the link.
    assert 40e6 < 8 * slow["evidence"]["speed"] < 65e6
    net_hosts.free(1)
    net_hosts.cut(2)
    began = time.time()
    cut = cluster.told("cut_off", 12)
    assert cut["subject"] == "worker:2" and abs(cut["begin"] - began) < 3
    assert cut["sentence"].startswith("worker:2's host does not answer to anyone: it is cut off or down since ")
