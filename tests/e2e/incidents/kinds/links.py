"""Links that are slow, lossy or cut: of one worker, between two, and to the console alone."""

from __future__ import annotations

from collections.abc import Callable

import net_hosts

from incidents.cluster import Cluster
from incidents.incident import DEAD, STILL, WELL, Incident, Setup

_LARGE = Setup(variables={"WIDTH": "512"})
_REACH = r"cut off|network|reach|contact|answer|hear"


def _cut(task: str, other: str | None = None) -> Callable[[Cluster], None]:
    return lambda cluster: net_hosts.cut(cluster.host(task), None if other is None else cluster.host(other))


def _free(*tasks: str) -> Callable[[Cluster], None]:
    return lambda cluster: [net_hosts.free(cluster.host(task)) for task in tasks] and None


INCIDENTS = (
    Incident(
        "cut for 5 s",
        "worker:2 is cut off from all others for 5 s",
        begin=_cut("worker:2"),
        end=_free("worker:2"),
        lasts=5,
        says={5: r"worker:2"},
        # TensorFlow gives some of them up, and goes on in others.
        afterwards={15: rf"{WELL}|worker:2's network was gone .* ended of that"},
        never=rf"{DEAD}|bound|bfloat16",
        recovers=True,
    ),
    Incident(
        "cut from the console",
        "worker:2 is cut off from the console alone for 16 s; another agent relays it, and the training goes on",
        begin=_cut("worker:2", "console"),
        end=_free("worker:2", "console"),
        lasts=16,
        says={6: WELL, 15: WELL},
        afterwards={10: WELL},
        never=rf"{DEAD}|stuck|bfloat16",
        recovers=True,
        quick=True,
    ),
    Incident(
        "cut for 20 s",
        "worker:2 is cut off from all others for 20 s",
        begin=_cut("worker:2"),
        end=_free("worker:2"),
        lasts=20,
        says={5: "worker:2", 10: rf"worker:2.*({_REACH})", 19: rf"worker:2.*({_REACH}).*since|since.*worker:2"},
        afterwards={10: rf"{WELL}|worker:2.*({_REACH})"},
        while_it_lasts=STILL,
        never=r"worker:2 has died|bound|bfloat16",
        report=rf"worker:2.*({_REACH})",
    ),
    Incident(
        "cut for 60 s",
        "worker:2 is cut off from all others for 60 s",
        begin=_cut("worker:2"),
        end=_free("worker:2"),
        lasts=60,
        says={10: rf"worker:2.*({_REACH})", 30: rf"worker:2.*({_REACH})", 58: rf"worker:2.*({_REACH})"},
        afterwards={10: rf"worker:2.*({_REACH})"},
        while_it_lasts=STILL,
        never=r"worker:2 has died|bound|bfloat16",
        report=rf"worker:2.*({_REACH})",
    ),
    Incident(
        "cut between two",
        "worker:0 and worker:1 do not reach each other; the console reaches both",
        begin=_cut("worker:0", "worker:1"),
        end=_free("worker:0", "worker:1"),
        lasts=25,
        says={5: r"no step|not hear", 10: r"worker:0.*worker:1|worker:1.*worker:0", 24: rf"worker:[01].*({_REACH})"},
        while_it_lasts=STILL,
        never=r"worker:\d has died|bound|bfloat16|worker:2[^;]*(stuck|not entered)",
        report=rf"worker:[01].*({_REACH})",
    ),
    Incident(
        "slow link",
        "worker:1 sends no more than 20 Mbit/s, for 31 s",
        setup=_LARGE,
        begin=lambda cluster: net_hosts.slow(cluster.host("worker:1"), 20e6),
        end=_free("worker:1"),
        says=dict.fromkeys((10, 20, 30), r"link from worker:1 to worker:2 is slow.*since"),
        afterwards={20: rf"{WELL}|communication-bound"},
        never=DEAD,
        report=r"link from worker:1 to worker:2 is slow",
        recovers=True,
    ),
    Incident(
        "lossy link",
        "5 % of what worker:1 is sent is lost, for 31 s",
        setup=_LARGE,
        begin=lambda cluster: net_hosts.lossy(cluster.host("worker:1"), 0.05),
        end=_free("worker:1"),
        says=dict.fromkeys((15, 20, 25, 30), r"link from worker:0 to worker:1.*(los|lost)"),
        never=DEAD,
        report=r"link from worker:0 to worker:1.*(loses|lost)",
        recovers=True,
    ),
)
