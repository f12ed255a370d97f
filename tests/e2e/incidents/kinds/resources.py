"""One worker short of what it computes with: cores, and its share of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from incidents import groups
from incidents.cluster import Cluster
from incidents.incident import DEAD, WELL, Incident, Setup

_ONE_THREAD = {"WIDTH": "256", "BATCH": "64", "TF_NUM_INTRAOP_THREADS": "1"}
_BUSY = Setup(groups={"worker:1": "cpu"}, variables=_ONE_THREAD | {"BURN": "40", "STEP": "0.06"})
# With as much of its step in other hands a worker would get its core whenever it needs it.
_BUSIER = Setup(variables=_ONE_THREAD | {"BURN": "250", "STEP": "0.01"})
_LARGE = 96 << 20
"""Bytes of a file that is read again and again."""
_BURN = [sys.executable, "-c", "while True: pass"]


def _burn(cluster: Cluster) -> None:
    for thread in Path(f"/proc/{cluster.pid('worker:1')}/task").iterdir():
        os.sched_setaffinity(int(thread.name), {1})
    # Linux shares a core between sessions: four processes of one would get half of it.
    burning = [subprocess.Popen(["taskset", "-c", "1", *_BURN], start_new_session=True) for _ in range(4)]
    cluster.undone(lambda: [process.kill() for process in burning])


def _throttle(_: Cluster) -> None:
    (groups.path("cpu", "worker:1") / "cpu.cfs_period_us").write_text("100000")
    (groups.path("cpu", "worker:1") / "cpu.cfs_quota_us").write_text("10000")


def _unthrottle(_: Cluster) -> None:
    (groups.path("cpu", "worker:1") / "cpu.cfs_quota_us").write_text("-1")


def _write_large(cluster: Cluster) -> None:
    """Write a file that no memory holds yet: what the first reader reads counts as its own."""
    with (cluster.folder / "large").open("wb") as large:
        large.write(bytes(_LARGE))
        large.flush()
        os.fsync(large.fileno())
        os.posix_fadvise(large.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _press(cluster: Cluster) -> None:
    group = groups.path("memory", "worker:1")
    used = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    (group / "memory.limit_in_bytes").write_text(str(int(used["total_rss"]) + _LARGE // 2))
    cluster.order("worker:1", "thrash")


INCIDENTS = (
    Incident(
        "memory pressure",
        "worker:1 reads a file after each step, and its cgroup has memory for half of it",
        setup=Setup(groups={"worker:1": "memory"}, variables={"LARGE": "{folder}/large"}, before=_write_large),
        begin=_press,
        end=lambda cluster: cluster.order("worker:1", ""),
        says={15: "worker:1", 30: r"worker:1.*slow.*(memory|Python)"},
        afterwards={20: WELL},
        never=rf"{DEAD}|worker:[02] (is|has been) slow|bfloat16",
        report=r"worker:1",
        recovers=True,
    ),
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
        setup=_BUSIER,
        begin=_burn,
        lasts=46,
        says={30: "worker:1", 45: r"worker:1.*slow"},
        never=rf"{DEAD}|worker:[02] is slow",
        report=r"worker:1",
    ),
)
