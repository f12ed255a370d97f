"""Faults of a cluster of parameter servers."""

from __future__ import annotations

import signal

import net_hosts

from incidents.incident import DEAD, SERVERS, STILL, WELL, Incident


def _signal(task: str, number: signal.Signals):
    return lambda cluster: cluster.signal(task, number)


INCIDENTS = (
    Incident(
        "stopped worker beside servers",
        "SIGSTOP to worker:1 under ParameterServerStrategy, SIGCONT 16 s later",
        setup=SERVERS,
        begin=_signal("worker:1", signal.SIGSTOP),
        end=_signal("worker:1", signal.SIGCONT),
        lasts=16,
        says={5: "worker:1", 15: r"worker:1.*stopped|stopped.*worker:1"},
        afterwards={10: WELL},
        never=DEAD,
        report=r"worker:1.*stopped|stopped.*worker:1",
        recovers=True,
    ),
    Incident(
        "stopped server",
        "SIGSTOP to ps:0, SIGCONT 16 s later",
        setup=SERVERS,
        begin=_signal("ps:0", signal.SIGSTOP),
        end=_signal("ps:0", signal.SIGCONT),
        lasts=16,
        says={5: "ps:0", 10: r"ps:0.*stopped|stopped.*ps:0", 15: r"ps:0.*stopped|stopped.*ps:0"},
        afterwards={10: WELL},
        while_it_lasts=STILL,
        never=DEAD,
        report=r"ps:0.*stopped|stopped.*ps:0",
        recovers=True,
    ),
    Incident(
        "stopped chief",
        "SIGSTOP to chief:0, SIGCONT 16 s later",
        setup=SERVERS,
        begin=_signal("chief:0", signal.SIGSTOP),
        end=_signal("chief:0", signal.SIGCONT),
        lasts=16,
        says={5: "chief:0", 10: r"chief:0.*stopped|stopped.*chief:0", 15: r"chief:0.*stopped|stopped.*chief:0"},
        afterwards={10: WELL},
        while_it_lasts=STILL,
        never=DEAD,
        report=r"chief:0.*stopped|stopped.*chief:0",
        recovers=True,
    ),
    Incident(
        "slow server",
        "ps:0 sends no more than 1 Mbit/s, for 31 s",
        setup=SERVERS,
        begin=lambda cluster: net_hosts.slow(cluster.host("ps:0"), 1e6),
        end=lambda cluster: net_hosts.free(cluster.host("ps:0")),
        says={15: r"ps:0", 30: r"ps:0.*(link|network|slow|send)"},
        afterwards={25: WELL},
        never=DEAD,
        report=r"ps:0",
        recovers=True,
    ),
    Incident(
        "killed worker beside servers",
        "SIGKILL to worker:1 under ParameterServerStrategy",
        setup=SERVERS,
        begin=_signal("worker:1", signal.SIGKILL),
        lasts=16,
        says={5: r"worker:1.*SIGKILL", 15: r"worker:1 was killed by SIGKILL at"},
        never=r"^(chief:0|ps:0|worker:0) (was|exited|has died|is stuck)",
        report=r"worker:1 was killed by SIGKILL",
    ),
    Incident(
        "killed server",
        "SIGKILL to ps:0",
        setup=SERVERS,
        begin=_signal("ps:0", signal.SIGKILL),
        lasts=21,
        says={5: r"ps:0.*SIGKILL", 20: r"ps:0 was killed by SIGKILL at"},
        while_it_lasts=STILL,
        never=r"^(chief:0|worker:\d) (was|exited|has died|is stuck)",
        report=r"ps:0 was killed by SIGKILL",
    ),
    Incident(
        "killed chief",
        "SIGKILL to chief:0",
        setup=SERVERS,
        begin=_signal("chief:0", signal.SIGKILL),
        lasts=21,
        says={5: r"chief:0.*SIGKILL", 20: r"chief:0 was killed by SIGKILL at"},
        while_it_lasts=STILL,
        never=r"^(ps:0|worker:\d) (was|exited|has died|is stuck)",
        report=r"chief:0 was killed by SIGKILL",
    ),
)
