"""Faults of a task whose agent is dead: what no other task sees is not known, and nothing false is said instead."""

from __future__ import annotations

import os
import re
import signal
import time
from dataclasses import replace

from incidents.cluster import Cluster
from incidents.incident import DEAD, STILL, WELL, Incident
from incidents.kinds import errors, inputs, killed, links, resources, servers, stopped, well

_BY_NAME = {
    incident.name: incident
    for kind in (errors, inputs, killed, links, resources, servers, stopped, well)
    for incident in kind.INCIDENTS
}
_TASKS = {
    "paused container": "worker:1",
    "killed lead": "worker:0",
    "out of memory": "worker:2",
    "exception": "worker:1",
    "end of data": "worker:1",
    "not a number": "worker:2",
    "hanging disk": "worker:1",
    "slow disk": "worker:1",
    "quota of cores": "worker:1",
    "cut for 20 s": "worker:2",
    "slow link": "worker:1",
    "stopped server": "ps:0",
    "killed chief": "chief:0",
    "evaluation alone": "worker:0",
}
"""Incidents, and the tasks to whose agents SIGKILL goes first."""
_UNKNOWN = {"not a number": "loss has not been a number"}
"""Patterns of what can be said of incidents in which nobody else sees whose fault it is."""


def _unwatched(incident: Incident, task: str) -> Incident:
    def begin(cluster: Cluster) -> None:
        cluster.kill_agent(task)
        incident.begin(cluster)

    def end(cluster: Cluster) -> None:
        if incident.end is not None:
            incident.end(cluster)
        cluster.start_agent(task)

    pattern = _UNKNOWN.get(incident.name, task)
    return replace(
        incident,
        name=f"{incident.name}, its agent dead",
        does=f"SIGKILL to the agent of {task}; {incident.does}",
        begin=begin,
        end=end,
        says=dict.fromkeys((10, incident.lasts - 1), pattern),
        # What its peers saw is that it was gone.
        never=re.sub(r"\|(peer )?was gone", "", incident.never),
        afterwards={20: rf"{WELL}|{pattern}|{task}"},
        report=pattern,
        quick=False,
    )


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


INCIDENTS = (
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
        "killed, its agent dead",
        "SIGKILL to the agent of worker:1 and to its task",
        begin=_kill_both,
        lasts=31,
        says={5: "worker:1", 15: r"worker:1", 30: r"worker:1.*(agent|died|contact|answer)"},
        while_it_lasts=STILL,
        never=r"^worker:[02] (was|exited|has died|is stuck)",
        report="worker:1",
    ),
    *(_unwatched(_BY_NAME[name], task) for name, task in _TASKS.items()),
)
