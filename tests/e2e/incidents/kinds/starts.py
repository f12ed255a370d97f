"""Clusters that never begin to train, or of which a task fails at its start."""

from __future__ import annotations

import subprocess
import sys

import net_hosts

from incidents.cluster import PORT, Cluster
from incidents.incident import SERVED, STILL, Incident, Setup

_LISTEN = f"import socket, time; s = socket.create_server(('0.0.0.0', {PORT})); time.sleep(1000)"


def _take_port(cluster: Cluster) -> None:
    inside = net_hosts.inside(cluster.host("worker:1"))
    listening = subprocess.Popen([*inside, sys.executable, "-c", _LISTEN])
    cluster.undone(listening.kill)


def _close_port(cluster: Cluster) -> None:
    rule = f"add rule inet tfscale input tcp dport {PORT} drop"
    subprocess.run([*net_hosts.inside(cluster.host("worker:1")), "nft", *rule.split()], check=True)


def _break_script(cluster: Cluster) -> None:
    (cluster.work / "broken.py").write_text("import tensorflow\nimport no_such_module\n")


def _setup(**words) -> Setup:
    return Setup(starts=False, **words)


INCIDENTS = (
    Incident(
        "not started",
        "nobody starts worker:2",
        setup=_setup(absent=("worker:2",)),
        lasts=50,
        says={10: "worker:2", 45: r"worker:2.*(not started|agent|answer)|agent of (worker:1 and )?worker:2"},
        while_it_lasts=rf"{STILL}|{'stuck'}",
    ),
    Incident(
        "wrong index",
        "the agent on the host of worker:2 is started as worker 1",
        setup=_setup(indexes={"worker:2": 1}),
        lasts=50,
        says={10: "worker:2", 45: r"worker:2.*(not started|agent|answer)|agent of (worker:1 and )?worker:2"},
        while_it_lasts=STILL,
    ),
    Incident(
        "port in use",
        "another program listens on worker:1's port",
        setup=_setup(before=_take_port),
        lasts=50,
        says={45: rf"worker:1.*({PORT}|address|port).*(in use|taken)"},
        while_it_lasts=STILL,
        never=r"^worker:[02] (exited|has died)",
        report=r"worker:1.*in use",
    ),
    Incident(
        "closed port",
        "a firewall closes worker:1's port",
        setup=_setup(before=_close_port),
        lasts=70,
        says={65: rf"worker:1.*({PORT}|port|reach|firewall)"},
        while_it_lasts=STILL,
        never=r"^worker:[02] (exited|has died)",
    ),
    Incident(
        "unknown name",
        "the cluster file names a host for worker:1 that no name server knows",
        setup=_setup(addresses={"worker:1": "no-such-host.invalid"}),
        lasts=70,
        says={65: r"no-such-host|name"},
        while_it_lasts=STILL,
    ),
    Incident(
        "one script is missing",
        "worker:1 has no such script",
        setup=_setup(own={"worker:1": {"SCRIPT": "missing.py"}}),
        lasts=45,
        says={20: r"worker:1 exited 2.*(missing.py|No such file)", 40: r"worker:1 exited 2.*(missing.py|No such file)"},
        while_it_lasts=STILL,
        report=r"worker:1 exited 2",
    ),
    Incident(
        "all fail alike",
        "the script of all three imports a module that is not there",
        setup=_setup(before=_break_script, own={f"worker:{index}": {"SCRIPT": "broken.py"} for index in range(3)}),
        lasts=40,
        says={38: r"(all (3|three)|worker:0, worker:1 and worker:2).*no_such_module"},
        while_it_lasts=STILL,
        never=r"peer was gone",
        report=r"no_such_module",
    ),
    Incident(
        "no chief",
        "parameter servers and workers are started, and no chief",
        setup=_setup(program="servers", roles=SERVED, absent=("chief:0",)),
        lasts=45,
        says={10: "chief", 40: r"chief.*(not started|agent|answer|contact)"},
        while_it_lasts=STILL,
    ),
)
