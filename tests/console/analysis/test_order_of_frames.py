"""Properties of the order in which frames arrive: who watches late is told what who watched from the start is told."""

from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from phase_simulation import Noise, Simulation
from tfscale.console.analysis.diagnostician import Diagnostician
from tfscale.console.analysis.findings import Findings
from tfscale.console.sources.simulation.step_phases import Slow
from tfscale.core.cluster.file.cluster_file import parse_cluster
from tfscale.core.records.frame import Frame

WORKERS, SECONDS, MINUTE = 5, 70, 60
SPEC = parse_cluster(
    {"cluster": {"worker": [f"10.0.0.{index + 1}:2222" for index in range(WORKERS)]}},
    name="test",
    where="test",
    base=Path(),
)
Frames = list[tuple[str, Frame]]


def simulated(rate: float, *slow: Slow) -> Frames:
    return list(Simulation(WORKERS, rate, float(SECONDS), Noise(0.05, 0.3), slow, seed=11).frames())


RUNS = {
    "slow, few steps": simulated(8.0, Slow(3, 1.5, begin=30.0)),
    "slow, more steps than the table keeps at least": simulated(25.0, Slow(1, 3.0, phase="input", begin=30.0)),
    "equal": simulated(8.0),
}
"""In the second run the minute of each worker has more than 1,000 steps."""


def observer() -> Diagnostician:
    made = Diagnostician(SPEC)
    for task in SPEC.tasks:
        made.note_link(str(task), True, 0.0)
    return made


def watched_live(frames: Frames) -> Findings:
    """Return what is found at the end by who evaluates after each second of frames."""
    watching, now = observer(), 0
    for task, frame in frames:
        if frame.sequence > now:
            now = frame.sequence
            watching.diagnose(float(now))
        watching.observe(task, frame)
    return watching.diagnose(SECONDS + 1.0)


def watched_late(frames: Frames, random: Random, whole_backlogs: bool) -> Findings:
    """Return what is found by who connects at the end, and gets each agent's last minute at some moment.

    The frames of an agent are in order; those of several come one backlog after the other, or mixed. Evaluations fall
    anywhere between them.
    """
    watching = observer()
    backlogs: dict[str, list[Frame]] = {str(task): [] for task in SPEC.tasks}
    for task, frame in frames:
        if frame.sequence > SECONDS - MINUTE:
            backlogs[task].append(frame)
    order = random.sample(sorted(backlogs), WORKERS)
    turns = [task for task in order for _ in backlogs[task]]
    if not whole_backlogs:
        random.shuffle(turns)
    for task in turns:
        watching.observe(task, backlogs[task].pop(0))
        if random.random() < 0.02:
            watching.diagnose(SECONDS + 1.0)
    for second in (1.0, 2.0):
        said = watching.diagnose(SECONDS + second)
    return said


LIVE = {name: watched_live(frames) for name, frames in RUNS.items()}


@pytest.mark.parametrize("name", RUNS)
@settings(max_examples=6, deadline=None, derandomize=True)
@given(random=st.randoms(use_true_random=False), whole_backlogs=st.booleans())
def test_late_consoles_find_the_same_in_whatever_order_they_get_the_frames(
    name: str, random: Random, whole_backlogs: bool
) -> None:
    late, live = watched_late(RUNS[name], random, whole_backlogs), LIVE[name]
    assert [(each.kind, each.subject) for each in late.diagnoses] == [
        (each.kind, each.subject) for each in live.diagnoses
    ]
    assert late.steps_per_second == pytest.approx(live.steps_per_second)
    assert late.step_time == pytest.approx(live.step_time)
    assert {task: summary.step for task, summary in late.subjects.items()} == {
        task: summary.step for task, summary in live.subjects.items()
    }
    for now, before in zip(late.diagnoses, live.diagnoses, strict=True):
        assert now.evidence["phase"] == before.evidence["phase"]
        assert now.evidence["ratio"] == pytest.approx(before.evidence["ratio"], rel=0.1)
        assert now.begin == pytest.approx(before.begin, abs=1.0), "the backlog holds its onset, and is kept"
