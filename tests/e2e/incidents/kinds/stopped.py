"""Processes that are stopped: by a signal (ctrl-Z, a debugger), or frozen by their container."""

from __future__ import annotations

import signal

from incidents import groups
from incidents.cluster import Cluster
from incidents.incident import DEAD, SLOW, STILL, WELL, Incident

WORKERS = ("worker:0", "worker:1", "worker:2")


def _stop(*tasks: str):
    return lambda cluster: [cluster.signal(task, signal.SIGSTOP) for task in tasks]


def _go_on(*tasks: str):
    return lambda cluster: [cluster.signal(task, signal.SIGCONT) for task in tasks]


def _freeze(cluster: Cluster) -> None:
    group = groups.make(cluster, "freezer", "worker:1")
    (group / "cgroup.procs").write_text(str(cluster.pid("worker:1")))
    (group / "freezer.state").write_text("FROZEN")
    cluster.undone(lambda: (group / "freezer.state").write_text("THAWED"))


def _thaw(_: Cluster) -> None:
    (groups.path("freezer", "worker:1") / "freezer.state").write_text("THAWED")


INCIDENTS = (
    Incident(
        "stopped briefly",
        "SIGSTOP to worker:2, SIGCONT 5 s later",
        begin=_stop("worker:2"),
        end=_go_on("worker:2"),
        lasts=5,
        says={4: r"worker:2.*(stopped|no step|not entered)|no step.*worker:2"},
        afterwards={6: WELL},
        never=DEAD,
        recovers=True,
        quick=True,
    ),
    Incident(
        "stopped lead",
        "SIGSTOP to worker:0, SIGCONT 16 s later, when TensorFlow gives up",
        begin=_stop("worker:0"),
        end=_go_on("worker:0"),
        lasts=16,
        says={3: "worker:0", 10: r"stopped.*worker:0|worker:0.*stopped", 15: r"stopped.*worker:0|worker:0.*stopped"},
        afterwards={12: r"stopped.*worker:0|worker:0.*stopped"},
        while_it_lasts=STILL,
        never=r"worker:0 has died|was gone|^worker:[12] (was|exited|has died|is stuck)",
        report=r"stopped.*worker:0|worker:0.*stopped",
    ),
    Incident(
        "all stopped",
        "SIGSTOP to all three workers, SIGCONT 5 s later",
        begin=_stop(*WORKERS),
        end=_go_on(*WORKERS),
        lasts=5,
        says={
            3: "stopped|no step",
            4.5: r"stopped.*(worker:0, worker:1 and worker:2|3 workers)",
        },
        afterwards={8: WELL},
        while_it_lasts=STILL,
        never=DEAD,
        recovers=True,
    ),
    Incident(
        "stopped agent",
        "SIGSTOP to the agent of worker:1, whose training goes on; SIGCONT 16 s later",
        begin=lambda cluster: cluster.agents["worker:1"].send_signal(signal.SIGSTOP),
        end=lambda cluster: cluster.agents["worker:1"].send_signal(signal.SIGCONT),
        lasts=16,
        says={6: r"worker:1", 15: r"worker:1.*agent|agent.*worker:1|contact.*worker:1"},
        afterwards={8: WELL},
        never=rf"{DEAD}|stuck|no step|(?<!no )straggl",
        recovers=True,
    ),
    Incident(
        "paused container",
        "the cgroup of worker:1 frozen, as by `docker pause`, for 16 s",
        begin=_freeze,
        end=_thaw,
        lasts=16,
        says={5: "worker:1", 10: r"worker:1.*(frozen|stopped|paused)"},
        afterwards={8: "worker:1"},
        while_it_lasts=STILL,
        never=r"worker:1 has died|was gone|^worker:[02] (was|exited|has died|is stuck)",
        report="worker:1",
    ),
    Incident(
        "stopped worker",
        "SIGSTOP to worker:1, SIGCONT 31 s later, when TensorFlow has ended the others",
        begin=_stop("worker:1"),
        end=_go_on("worker:1"),
        says={3: "worker:1", 10: r"stopped.*worker:1|worker:1.*stopped", 30: r"worker:1.*stopped|stopped.*worker:1"},
        afterwards={10: r"stopped.*worker:1|worker:1.*stopped"},
        while_it_lasts=STILL,
        never=r"worker:1 has died|was gone|^worker:[02] (was|exited|has died|is stuck)",
        report=r"stopped.*worker:1|worker:1.*stopped",
    ),
    Incident(
        "stopped worker of slow steps",
        "SIGSTOP to worker:1 in steps of 1 s, SIGCONT 16 s later",
        setup=SLOW,
        begin=_stop("worker:1"),
        end=_go_on("worker:1"),
        lasts=16,
        says={8: "worker:1", 15: r"stopped.*worker:1|worker:1.*stopped"},
        afterwards={9: r"stopped.*worker:1|worker:1.*stopped"},
        never=r"worker:1 has died|was gone|^worker:[02] (was|exited|has died|is stuck)",
        report=r"stopped.*worker:1|worker:1.*stopped",
    ),
)
