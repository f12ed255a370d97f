"""One worker short of what it computes with: cores, and its share of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from incidents import groups
from incidents.cluster import Cluster
from incidents.incident import DEAD, WELL, Incident, Setup

_BUSY = Setup(
    groups={"worker:1": "cpu"},
    variables={"WIDTH": "256", "BATCH": "64", "BURN": "40", "STEP": "0.06", "TF_NUM_INTRAOP_THREADS": "1"},
)
_BURN = [sys.executable, "-c", "while True: pass"]


def _burn(cluster: Cluster) -> None:
    for thread in Path(f"/proc/{cluster.pid('worker:1')}/task").iterdir():
        os.sched_setaffinity(int(thread.name), {1})
    burning = [subprocess.Popen(["taskset", "-c", "1", *_BURN]) for _ in range(4)]
    cluster.undone(lambda: [process.kill() for process in burning])


def _throttle(_: Cluster) -> None:
    (groups.path("cpu", "worker:1") / "cpu.cfs_period_us").write_text("100000")
    (groups.path("cpu", "worker:1") / "cpu.cfs_quota_us").write_text("10000")


def _unthrottle(_: Cluster) -> None:
    (groups.path("cpu", "worker:1") / "cpu.cfs_quota_us").write_text("-1")


INCIDENTS = (
    Incident(
        "quota of cores",
        "the cgroup of worker:1 may use a tenth of a core, for 31 s",
        setup=_BUSY,
        begin=_throttle,
        end=_unthrottle,
        says={15: "worker:1", 30: r"worker:1.*slow.*(throttl|quota|limit|CPU)"},
        afterwards={20: WELL},
        never=rf"{DEAD}|worker:[02] is slow|bfloat16",
        report=r"worker:1.*(throttl|quota|limit|CPU)",
        recovers=True,
    ),
    Incident(
        "other processes",
        "four other processes on the core of worker:1",
        setup=_BUSY,
        begin=_burn,
        lasts=46,
        says={30: "worker:1", 45: r"worker:1.*slow"},
        never=rf"{DEAD}|worker:[02] is slow",
        report=r"worker:1",
    ),
)
