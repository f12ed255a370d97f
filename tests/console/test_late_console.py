"""Recordings of real runs, cut at random moments: a console that comes late says what one says that was there.

What the agents had kept at that moment is served by their real feed to a real live source.
"""

from __future__ import annotations

import random
import re
from functools import cache
from pathlib import Path

import pytest
from late_console import agents_at, early_snapshots, findings, late, set_clocks
from tfscale.console.engine.events import Event
from tfscale.console.engine.model import Snapshot
from tfscale.console.recording.recording_reader import Recording
from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.records.diagnosis import Diagnosis

RUNS = sorted((Path(__file__).parents[1] / "data" / "runs").glob("*.tfrec"))
CUTS = 5
EARLIEST = 15.0
"""Seconds of a run before its first cut: before that nothing has begun."""
ONE_STEP = 0.2
"""Seconds of a step of these runs, at most, while nothing is wrong."""


@cache
def recorded(path: Path) -> tuple[ClusterSpec, list[Event]]:
    recording = Recording(path)
    return recording.spec, list(recording.events())


@cache
def seen(path: Path) -> list[Snapshot]:
    """Return what a console took that was there."""
    return list(early_snapshots(*recorded(path)))


def seen_at(path: Path, at: float) -> Snapshot:
    return [snapshot for snapshot in seen(path) if snapshot.at <= at][-1]


def moments(path: Path) -> list[float]:
    """Return moments of a run, drawn anew for each name, and the same in each run of the tests."""
    _, events = recorded(path)
    chance = random.Random(path.stem)
    return sorted(chance.uniform(events[0].at + EARLIEST, events[-1].at - 1) for _ in range(CUTS))


def worst(snapshot: Snapshot) -> tuple[str, str] | None:
    """Return kind and subject of the first open finding."""
    found: list[Diagnosis] = [each for each in snapshot.findings.diagnoses if each.end is None]
    return (found[0].kind, found[0].subject) if found else None


def words(sentence: str) -> str:
    """Return a sentence without its numbers, which change within a second."""
    return re.sub(r"(?<= )[\d:.,]+", "#", sentence)


def numbers(sentence: str) -> list[float]:
    """Return the numbers of a sentence, but for times of the day."""
    return [float(number) for number in re.findall(r"(?<= )\d+(?:\.\d+)?(?![\d:])", sentence)]


@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.stem)
async def test_a_late_console_says_what_one_says_that_was_there(path: Path) -> None:
    spec, events = recorded(path)
    clocks = set_clocks(events)
    for at in moments(path):
        there, agents = seen_at(path, at), agents_at(events, at, clocks)
        came = (await late(spec, agents, at, clocks)).snapshots[-1]
        second = f"{at - events[0].at:.1f} s after the begin"
        assert findings(came).keys() == findings(there).keys(), second
        for each, onset in findings(there).items():
            assert findings(came)[each] == pytest.approx(onset, abs=ONE_STEP), (second, each)
        assert worst(came) == worst(there), second
        assert words(came.findings.headline) == words(there.findings.headline), second
        if set(agents) == set(spec.agents):
            # A frame that arrived late belonged to the next second of the one that was there.
            assert numbers(came.findings.headline) == pytest.approx(numbers(there.findings.headline), 0.1, 1), second


def test_the_recordings_hold_findings_of_many_kinds() -> None:
    told = {kind for path in RUNS for at in moments(path) for kind, _ in findings(seen_at(path, at))}
    network, pace = {"slow_link", "cut_off", "wrong_clock"}, {"pauses", "imbalance", "straggler", "saturation"}
    assert network | pace | {"not_finite"} <= told
