"""Rounds of a soak: random deeds, then none, and what must be so after each and in the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from recovery.held_roles import held, is_whole, taken_twice

from soak.census import Taken, grown, table, taken
from soak.deeds import deeds, steady_seat
from soak.soaked_cluster import SoakedCluster, soaked

IN_TIME = 60.0
"""Seconds after which the gang trains, once nothing is done to it any more."""
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
        while not faults and (passed := time.monotonic() - began) < seconds - IN_TIME / 2:
            number += 1
            _do_round(cluster, seed, number, tell)
            faults += _mended(cluster, tell)
            samples = [*(samples if passed > _BEGIN * seconds else []), _sample(cluster)]
        steady = [f"agent of {steady_seat(seed, cluster.seats)}", "console that records"]
        for line in table(samples, steady):
            say(line)
        faults += [fault for name in samples[0] for fault in grown(name, samples[0][name], samples[-1][name])]
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
    while (now := time.monotonic()) < max(lifted + IN_TIME, whole_since + _CALM):
        cluster.attend()
        holding = {role.pid for role in held(cluster.folder)}
        if not (cluster.have_started() and is_whole(cluster.folder, cluster.tasks)) or holding != pids:
            pids, whole_since = holding, now
            if now > lifted + IN_TIME:
                break
        elif now > whole_since + _CALM:
            tell(f"trains after {whole_since - lifted:.0f} s, in generation {_generations(cluster)}")
            return [*_wrong(cluster)]
        time.sleep(0.2)
    return [f"it does not train within {IN_TIME:.0f} s: {_generations(cluster)}", *_wrong(cluster)]


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
    return {name: taken(pid) for name, pid in cluster.processes().items()}


def _ended(cluster: SoakedCluster) -> list[str]:
    """End all; return what is not as it must be then."""
    faults = [*cluster.end_in_order(), *cluster.tracebacks()]
    runs = cluster.report()["runs"]
    return faults if runs else [*faults, "the recording holds no run"]
