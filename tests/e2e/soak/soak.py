"""Rounds of a soak: random deeds, then none, and what must be so after each and in the end."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from recovery.held_roles import held, is_whole, taken_twice

from soak.census import Taken, grown, table, taken
from soak.deeds import deeds, steady_seat
from soak.soaked_cluster import SoakedCluster, soaked

IN_TIME = 60.0
"""Seconds after which the gang trains, once nothing is done to it any more, where the machine does nothing else."""
_MOST_PATIENCE = 5.0
"""Largest multiple of that which other programs may cost."""
_CALM = 12.0
"""Seconds for which it must stay as it is then: the lead's agent looks every 10 s."""
_BEGIN = 0.2
"""Share of the soak after which all is as large as it gets."""


def soak(folder: Path, seconds: float, seed: int, say: Callable[[str], None]) -> list[str]:
    """Run a soak in a new folder, telling each deed; return what is not as it must be."""
    began = time.monotonic()

    def tell(line: str) -> None:
        say(f"{time.monotonic() - began:7.1f} s  {line}")

    with soaked(folder, tell) as cluster:
        tell("begin")
        faults, samples = _mended(cluster, tell), [_sample(cluster)]
        number = 0
        while (passed := time.monotonic() - began) < seconds - IN_TIME / 2:
            number += 1
            _do_round(cluster, seed, number, tell)
            found = [fault for fault in _mended(cluster, tell) if fault not in faults]
            for fault in found:
                tell(f"    {fault}")
            faults += found
            samples = [*(samples if passed > _BEGIN * seconds else []), _sample(cluster)]
        steady = [f"agent of {steady_seat(seed, cluster.seats)}", "console that records"]
        for line in table(samples, steady):
            say(line)
        faults += grown(samples[0], samples[-1])
        faults += _ended(cluster)
    say(f"{number} rounds with seed {seed}, {time.monotonic() - began:.0f} s, {len(faults)} faults")
    return faults


def _do_round(cluster: SoakedCluster, seed: int, number: int, tell: Callable[[str], None]) -> None:
    (cluster.folder / "beats").unlink(missing_ok=True)
    began = time.monotonic()
    for deed in deeds(seed, number, cluster.tasks, cluster.seats):
        while time.monotonic() < began + deed.at:
            cluster.attend()
            time.sleep(0.1)
        tell(f"round {number}: {deed}")
        cluster.act(deed)


def _mended(cluster: SoakedCluster, tell: Callable[[str], None]) -> list[str]:
    """End what was done, and return what is wrong after that."""
    cluster.lift()
    lifted = whole_since = time.monotonic()
    pids: set[int] = set()
    while (now := time.monotonic()) < whole_since + _CALM or now < lifted + IN_TIME * _busy():
        cluster.attend()
        holding = {role.pid for role in held(cluster.folder)}
        if not (cluster.have_started() and is_whole(cluster.folder, cluster.tasks)) or holding != pids:
            pids, whole_since = holding, now
            if now > lifted + IN_TIME * _busy():
                break
        elif now > whole_since + _CALM:
            after = f"after {whole_since - lifted:.0f} s, at a load of {os.getloadavg()[0]:.0f}"
            tell(f"trains {after}, in generation {_generations(cluster)}")
            return [*_wrong(cluster)]
        time.sleep(0.2)
    return [f"it does not train within {now - lifted:.0f} s: {_generations(cluster)}", *_wrong(cluster)]


def _busy() -> float:
    """Return how many times longer all takes while other programs keep the cores busy."""
    return min(_MOST_PATIENCE, max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)))


def _generations(cluster: SoakedCluster) -> str:
    return ", ".join(sorted({str(role.generation) for role in held(cluster.folder)})) or "none"


def _wrong(cluster: SoakedCluster) -> Iterator[str]:
    """Yield what has gone wrong so far, whether or not it was mended."""
    seen = cluster.once()
    if sorted(seen) != cluster.tasks or len({*seen.values()}) != 1:
        yield f"a console sees {seen}"
    yield from (f"held twice: {role}" for role in taken_twice(cluster.folder))
    yield from cluster.faults
    yield from cluster.tracebacks()


def _sample(cluster: SoakedCluster) -> dict[str, Taken]:
    """Return what all take; nobody is in it whose process has ended a moment ago."""
    return {name: found for name, pid in cluster.processes().items() if (found := taken(pid)) is not None}


def _ended(cluster: SoakedCluster) -> list[str]:
    """End all; return what is not as it must be then."""
    faults = [*cluster.end_in_order(), *cluster.tracebacks()]
    runs = cluster.report()["runs"]
    return faults if runs else [*faults, "the recording holds no run"]
