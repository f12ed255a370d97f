"""Two real workers that no strategy joins: what is said of them, and which of them restart."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from local_cluster import once, running, unhealthy, wait_until, write_cluster

OWN_EXCHANGE = Path(__file__).parents[1] / "programs" / "measuring" / "own_exchange.py"


@pytest.mark.slow
@pytest.mark.tensorflow
def test_workers_that_meet_over_a_socket_of_their_own_are_not_healthy_and_nobody_is_compared(tmp_path: Path) -> None:
    cluster = write_cluster(tmp_path, 2)
    with running(tmp_path, cluster, 2, [sys.executable, OWN_EXCHANGE], {}):
        first = unhealthy(cluster)
        assert [diagnosis["kind"] for diagnosis in first["diagnoses"] if diagnosis["severity"] != "info"] == [
            "not_measured"
        ]
        said: list[str] = []

        def keep_step() -> bool:
            status, snapshot = once(cluster)
            assert status == 3
            assert all(task["summary"]["ratio"] is None for task in snapshot["tasks"])
            said.append(snapshot["headline"])
            return said[-1].startswith("worker:0 and worker:1 keep step, though no strategy joins them")

        wait_until(keep_step)
    assert all(each.startswith("2 trainings run side by side, unless the script exchanges") for each in said[:-1])
