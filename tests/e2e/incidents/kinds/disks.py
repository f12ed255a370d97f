"""Faults of what is written: a full disk, and a file that two workers write."""

from __future__ import annotations

import subprocess

from incidents.cluster import Cluster
from incidents.incident import WELL, Incident, Setup


def _mount(cluster: Cluster) -> None:
    disk = cluster.folder / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "tfscale-incident", disk], check=True)
    cluster.undone(lambda: subprocess.run(["umount", "--lazy", disk], check=True))


def _write_one_file(cluster: Cluster) -> None:
    for task in ("worker:1", "worker:2"):
        cluster.order(task, "one file")


INCIDENTS = (
    Incident(
        "full disk",
        "worker:0 saves a checkpoint after each step, and its disk is full after some 20",
        setup=Setup(variables={"CHECKPOINTS": "{folder}/disk"}, before=_mount),
        begin=lambda cluster: cluster.order("worker:0", "checkpoint"),
        says={30: r"worker:0 exited.*(no space|disk|full)"},
        never=r"out of memory|^worker:[12] (exited|has died)|worker:0[^;]*peer",
        report=r"worker:0.*(no space|disk|full)",
    ),
    Incident(
        "one checkpoint of two",
        "worker:1 and worker:2 write the same file of weights after each step; HDF5 raises nothing",
        setup=Setup(
            variables={"CHECKPOINTS": "{folder}/disk"}, before=lambda cluster: (cluster.folder / "disk").mkdir()
        ),
        begin=_write_one_file,
        lasts=25,
        says={24: WELL},
        never=r"worker:\d (exited|has died)|(?<!no )straggl",
    ),
)
