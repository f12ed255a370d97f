"""Processes that are killed: tasks, agents, and a task whose container has no memory left."""

from __future__ import annotations

import signal

from incidents import groups
from incidents.cluster import Cluster
from incidents.incident import DEAD, STILL, WELL, Incident, Setup


def _exhaust_memory(cluster: Cluster) -> None:
    (groups.path("memory", "worker:2") / "memory.limit_in_bytes").write_text(str(1500 << 20))
    cluster.order("worker:2", "memory")


INCIDENTS = (
    Incident(
        "killed agent",
        "SIGKILL to the agent of worker:1, started again 16 s later",
        begin=lambda cluster: cluster.kill_agent("worker:1"),
        end=lambda cluster: cluster.start_agent("worker:1"),
        lasts=16,
        says={4: "worker:1", 15: r"worker:1.*agent|agent.*worker:1|contact.*worker:1"},
        afterwards={10: WELL},
        never=rf"{DEAD}|stuck|no step|(?<!no )straggl",
        recovers=True,
        quick=True,
    ),
    Incident(
        "killed worker",
        "SIGKILL to worker:1",
        begin=lambda cluster: cluster.signal("worker:1", signal.SIGKILL),
        says={4: r"worker:1.*SIGKILL", 10: r"worker:1.*SIGKILL", 30: r"worker:1 was killed by SIGKILL at \d\d:\d\d"},
        while_it_lasts=STILL,
        never=r"^worker:[02] (was|exited|has died|is stuck)",
        report=r"worker:1 was killed by SIGKILL",
        quick=True,
    ),
    Incident(
        "killed lead",
        "SIGKILL to worker:0",
        begin=lambda cluster: cluster.signal("worker:0", signal.SIGKILL),
        lasts=16,
        says={4: r"worker:0.*SIGKILL", 10: r"worker:0.*SIGKILL", 15: r"worker:0 was killed by SIGKILL at \d\d:\d\d"},
        while_it_lasts=STILL,
        never=r"^worker:[12] (was|exited|has died|is stuck)",
        report=r"worker:0 was killed by SIGKILL",
    ),
    Incident(
        "out of memory",
        "worker:2 takes more memory than its cgroup has, and the kernel kills it",
        setup=Setup(groups={"worker:2": "memory"}),
        begin=_exhaust_memory,
        lasts=21,
        says={8: r"worker:2.*(killed|SIGKILL)", 20: r"worker:2 was killed.*memory"},
        while_it_lasts=WELL,
        never=r"^worker:[01] (was|exited|has died|is stuck)",
        report=r"worker:2.*memory",
    ),
)
