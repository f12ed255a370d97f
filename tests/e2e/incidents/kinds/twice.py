"""Two faults at once: a second one while the first lasts, and faults of tasks whose agent is dead."""

from __future__ import annotations

import os
import signal
import time

import net_hosts

from incidents.cluster import Cluster
from incidents.incident import DEAD, STILL, WELL, Incident


def _slow_then_stop(cluster: Cluster) -> None:
    cluster.order("worker:1", "slow disk")
    time.sleep(20)
    cluster.signal("worker:2", signal.SIGSTOP)


def _go_on(cluster: Cluster) -> None:
    cluster.signal("worker:2", signal.SIGCONT)
    cluster.order("worker:1", "")


def _kill_agent_then_stop(cluster: Cluster) -> None:
    cluster.kill_agent("worker:1")
    cluster.signal("worker:1", signal.SIGSTOP)


def _start_agent_and_go_on(cluster: Cluster) -> None:
    cluster.signal("worker:1", signal.SIGCONT)
    cluster.start_agent("worker:1")


def _kill_both(cluster: Cluster) -> None:
    pid = cluster.pid("worker:1")
    cluster.kill_agent("worker:1")
    time.sleep(0.5)
    os.kill(pid, signal.SIGKILL)


def _stop_then_cut(cluster: Cluster) -> None:
    cluster.signal("worker:1", signal.SIGSTOP)
    time.sleep(4)
    net_hosts.cut(cluster.host("worker:2"))


def _free_and_go_on(cluster: Cluster) -> None:
    net_hosts.free(cluster.host("worker:2"))
    cluster.signal("worker:1", signal.SIGCONT)


INCIDENTS = (
    Incident(
        "slow, then another stopped",
        "worker:1 reads slowly; 20 s later SIGSTOP to worker:2; both end 5 s after that",
        begin=_slow_then_stop,
        end=_go_on,
        lasts=25,
        says={18: r"worker:1.*slow", 24: r"worker:2.*stopped|stopped.*worker:2"},
        afterwards={25: WELL},
        never=DEAD,
        recovers=True,
    ),
    Incident(
        "stopped, its agent dead",
        "SIGKILL to the agent of worker:1 and SIGSTOP to its task; both mended after 6 s",
        begin=_kill_agent_then_stop,
        end=_start_agent_and_go_on,
        lasts=6,
        says={5: r"no step.*worker:1|worker:1.*(no step|still|agent).*"},
        afterwards={12: WELL},
        while_it_lasts=STILL,
        never=DEAD,
        recovers=True,
    ),
    Incident(
        "stopped, then another cut off",
        "SIGSTOP to worker:1; 4 s later worker:2 is cut off; both mended after 18 s",
        begin=_stop_then_cut,
        end=_free_and_go_on,
        lasts=18,
        says={4: r"worker:1.*stopped|stopped.*worker:1", 17: r"worker:1.*stopped|worker:2.*(cut|reach|contact)"},
        while_it_lasts=STILL,
        never=r"worker:[12] has died|^worker:0 (was|exited|has died|is stuck)",
        report=r"worker:1.*stopped|stopped.*worker:1",
    ),
    Incident(
        "killed, its agent dead",
        "SIGKILL to the agent of worker:1 and to its task",
        begin=_kill_both,
        lasts=31,
        says={5: "worker:1", 15: r"worker:1", 30: r"worker:1.*(agent|died|contact|answer)"},
        while_it_lasts=STILL,
        never=r"^worker:[02] (was|exited|has died|is stuck)",
        report="worker:1",
    ),
)
