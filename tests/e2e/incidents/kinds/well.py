"""Clusters in which all is well, or nearly: what must not be called a fault, and pauses that cost something."""

from __future__ import annotations

from incidents.incident import DEAD, SLOW, WELL, Incident, Setup

_LARGE = Setup(variables={"WIDTH": "256"})
_NO_FAULT = rf"{DEAD}|(?<!no )straggl|slow|stuck|still|no step|bound|stopped"

INCIDENTS = (
    Incident(
        "all is well",
        "nothing, for a minute",
        lasts=60,
        says=dict.fromkeys((3, 10, 20, 30, 40, 50, 59), WELL),
        never=_NO_FAULT,
        recovers=True,
    ),
    Incident(
        "all is well for long",
        "nothing, for ten minutes",
        lasts=600,
        says=dict.fromkeys(range(3, 600), WELL),
        never=_NO_FAULT,
        recovers=True,
    ),
    Incident(
        "ordered restart",
        "a person restarts worker:1 from a console, and with it the others",
        begin=lambda cluster: cluster.restart("worker:1"),
        lasts=60,
        says={58: WELL},
        never=DEAD,
    ),
    Incident(
        "checkpoint alone",
        "worker:0 saves a checkpoint after each step, alone, for 91 s",
        setup=_LARGE,
        begin=lambda cluster: cluster.order("worker:0", "checkpoint"),
        end=lambda cluster: cluster.order("worker:0", ""),
        lasts=91,
        # Told is the share of the newest minute: some 12 % here.
        says=dict.fromkeys((80, 90), r"checkpoint"),
        afterwards={60: WELL},
        never=rf"{DEAD}|stuck|bfloat16|worker:[12] is slow",
        recovers=True,
    ),
    Incident(
        "garbage collection",
        "worker:2 stands still for 3 s of every 10 s, as in a collection of garbage, for 46 s",
        begin=lambda cluster: cluster.order("worker:2", "garbage"),
        end=lambda cluster: cluster.order("worker:2", ""),
        lasts=46,
        says={45: r"worker:2.*pause"},
        afterwards={30: WELL},
        never=rf"{DEAD}|bfloat16|worker:[01] is slow",
        report=r"worker:2",
        recovers=True,
    ),
    Incident(
        "evaluation alone",
        "worker:0 evaluates under the strategy, and the others go on training",
        begin=lambda cluster: cluster.order("worker:0", "evaluation"),
        says={5: r"worker:0.*evaluat", 15: r"worker:0.*evaluat", 30: r"worker:0.*evaluat"},
        never=DEAD,
        report=r"worker:0.*evaluat",
    ),
    Incident(
        "slow steps, well",
        "nothing, for 40 s, in steps of 1 s",
        setup=SLOW,
        lasts=40,
        says=dict.fromkeys((3, 10, 20, 30, 39), WELL),
        never=_NO_FAULT,
        recovers=True,
    ),
)
