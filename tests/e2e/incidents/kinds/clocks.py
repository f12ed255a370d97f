"""Clocks of hosts that are set while the training runs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from incidents.cluster import Cluster
from incidents.incident import DEAD, WELL, Incident, Setup

_LIBRARY = Path(__file__).parents[1] / "clock.c"
_AHEAD = {"LD_PRELOAD": "{folder}/clock.so", "CLOCK": "{folder}/clock"}


def _make_clock(cluster: Cluster) -> None:
    (cluster.folder / "clock").write_bytes(bytes(8))
    command = [os.environ.get("CC", "cc"), "-shared", "-fPIC", "-o", cluster.folder / "clock.so", _LIBRARY]
    subprocess.run(command, check=True)


def _set(cluster: Cluster, seconds: int) -> None:
    # In place: the programs have mapped the file.
    with (cluster.folder / "clock").open("r+b") as clock:
        clock.write(seconds.to_bytes(8, "little", signed=True))


_CLOCKED = Setup(own={"worker:1": _AHEAD}, before=_make_clock)
_NO_FAULT = rf"{DEAD}|stuck|no step|slow|(?<!no )straggl|contact|bound"

INCIDENTS = tuple(
    Incident(
        f"clock an hour {where}",
        f"the clock of worker:1's host is set an hour {where}, and right again after 25 s",
        setup=_CLOCKED,
        begin=lambda cluster, seconds=seconds: _set(cluster, seconds),
        end=lambda cluster: _set(cluster, 0),
        lasts=25,
        says=dict.fromkeys((3, 10, 24), rf"{WELL}|worker:1.*clock"),
        afterwards={10: WELL},
        never=_NO_FAULT,
        recovers=True,
    )
    for where, seconds in (("ahead", 3600), ("back", -3600))
)
