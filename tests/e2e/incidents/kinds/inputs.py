"""Faults of the input of one worker: readers that stand still, and slow ones."""

from __future__ import annotations

from incidents.cluster import Cluster
from incidents.incident import DEAD, STILL, WELL, Incident, Setup

_PIPED = Setup(variables={"PIPE": "{folder}/pipe"}, before=lambda cluster: cluster.make_pipe("pipe"))


def _write_to_pipe(cluster: Cluster) -> None:
    cluster.order("worker:1", "")
    (cluster.folder / "pipe").write_bytes(b"at last")


INCIDENTS = (
    Incident(
        "hanging disk",
        "worker:1 reads a file that gives nothing for 31 s, as on a disk that hangs",
        setup=_PIPED,
        begin=lambda cluster: cluster.order("worker:1", "hanging disk"),
        end=_write_to_pipe,
        says={5: "worker:1", 10: r"worker:1.*(data|input|batch|read)", 30: r"since.*worker:1.*(data|input|batch|read)"},
        afterwards={10: WELL},
        while_it_lasts=STILL,
        never=DEAD,
        report=r"worker:1.*(data|input|batch|read)",
        recovers=True,
    ),
    Incident(
        "slow disk",
        "each read of worker:1 takes 300 ms, for 31 s: three times a step",
        begin=lambda cluster: cluster.order("worker:1", "slow disk"),
        end=lambda cluster: cluster.order("worker:1", ""),
        says={10: "worker:1", 20: r"worker:1.*slow.*(data|input)", 30: r"worker:1.*slow.*(data|input)"},
        afterwards={20: WELL},
        never=rf"{DEAD}|bfloat16|worker:[02] is slow",
        report=r"worker:1.*(data|input)",
        recovers=True,
    ),
    Incident(
        "slow disks",
        "each read of all three workers takes 300 ms, for 61 s",
        begin=lambda cluster: [cluster.order(task, "slow disk") for task in cluster.tasks] and None,
        end=lambda cluster: [cluster.order(task, "") for task in cluster.tasks] and None,
        lasts=61,
        says={60: r"input|data"},
        never=DEAD,
        recovers=True,
    ),
    Incident(
        "deadlock",
        "the thread that reads worker:1's data waits for a lock that nobody gives",
        setup=_PIPED,
        begin=lambda cluster: cluster.order("worker:1", "deadlock"),
        says={5: "worker:1", 10: r"worker:1.*(data|input|batch|lock)", 30: r"since.*worker:1.*(data|input|batch|lock)"},
        while_it_lasts=STILL,
        never=DEAD,
        report=r"worker:1.*(data|input|batch|lock)",
    ),
)
