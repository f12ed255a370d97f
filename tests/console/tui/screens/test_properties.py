"""Properties of the fold that hold for all frames, in any order and with any content."""

from __future__ import annotations

import json
import math
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import takewhile
from random import Random

import fakes
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tfscale.console.engine.events import Event, FrameArrived, SecondPassed
from tfscale.console.engine.model import Snapshot
from tfscale.console.engine.state_factory import states
from tfscale.console.export import rows
from tfscale.console.export.snapshot_once import snapshot_line
from tfscale.console.sources.simulation.simulated import simulated_spec
from tfscale.console.sources.simulation.simulated_cluster import SimulatedCluster
from tfscale.console.tui.widgets.appearance.theme import Appearance
from tfscale.console.tui.widgets.charts.step_timeline import sentence, timeline
from tfscale.console.tui.widgets.panes.headline_pane import headline_lines
from tfscale.console.wire import frames
from tfscale.core.records.frame import Frame
from tfscale.core.records.step_batch import PHASES, StepBatch

MANY, FEW = 70, 3
SECONDS = 6


def arrivals(workers: int) -> list[Event]:
    cluster = SimulatedCluster(simulated_spec(workers), (), 10.0, seed=5)
    return list(takewhile(lambda event: event.at < fakes.NOW + SECONDS, cluster.arrivals(fakes.NOW)))


of_many, of_few = arrivals(MANY), arrivals(FEW)


def watched(workers: int, events: Iterable[Event]) -> Iterator[Snapshot]:
    """Return the visible state after each second of these frames."""
    state, due = states(simulated_spec(workers))(), fakes.NOW
    for event in events:
        if event.at >= due:
            state.fold(SecondPassed(due))
            yield state.snapshot(due)
            due += 1.0
        state.fold(event)
    state.fold(SecondPassed(due))
    yield state.snapshot(due)


def appearance(snapshot: Snapshot) -> None:
    """Draw, describe and export the newest steps, as the screens and the files do."""
    json.dumps(snapshot_line(snapshot), allow_nan=False)
    headline_lines(snapshot, Appearance(), 80)
    last = snapshot.history.recent_steps if snapshot.history else None
    for at in (last.newest, last.common, last.oldest) if last else ():
        if at is not None and last is not None:
            sentence(timeline(last.aligned(at, 3)), Appearance())


@settings(max_examples=10, deadline=None, derandomize=True)
@given(st.sets(st.integers(0, MANY - 1), min_size=1), st.randoms(use_true_random=False))
@example({1}, Random(1))
@example(set(range(1, MANY)), Random(2))
def test_whoever_reports_and_however_late_nobody_is_named_wrongly(told: set[int], random: Random) -> None:
    lost, late = random.choice([0.0, 0.3]), random.choice([0.0, 0.2])
    came = [
        replace(event, at=event.at + (random.uniform(0.0, 3.0) if random.random() < late else 0.0))
        for event in of_many
        if not isinstance(event, FrameArrived) or (event.task.index in told and random.random() >= lost)
    ]
    for snapshot in watched(MANY, sorted(came, key=lambda event: event.at)):
        appearance(snapshot)
        assert not [diagnosis for diagnosis in snapshot.findings.diagnoses if diagnosis.kind == "straggler"]


NUMBERS = (math.nan, math.inf, -math.inf, -1.0, 0.0, 1e-40, 3e38, 1e9)
MOMENTS = (math.nan, math.inf, -1e300, 1e300, 0.0, fakes.NOW + 1e9)
COUNTS = (0, 3, 1 << 31, 1 << 40, 1 << 53, (1 << 64) - 1)


def wild(random: Random, batch: StepBatch) -> StepBatch:
    """Return the batch with values that no probe should send."""

    def column(name: str, kind: str, values: tuple[float, ...]) -> array[float]:
        kept = array(kind, getattr(batch, name))
        for _ in range(random.choice([0, 0, 1, len(kept)])):
            kept[random.randrange(len(kept))] = random.choice(values)
        return kept[: random.choice([len(kept)] * 9 + [0, len(kept) // 2])]

    return replace(
        batch,
        subject=random.choice([batch.subject] * 9 + ["garbage"]),
        attempt=random.choice([batch.attempt] * 9 + [2]),
        sequence=column("sequence", "Q", COUNTS),
        end=column("end", "d", MOMENTS),
        **{phase: column(phase, "f", NUMBERS) for phase in PHASES},
    )


def said(random: Random, frame: Frame) -> Frame | None:
    """Return the frame with random numbers as the console reads it; None where it is refused."""
    moment = random.choice([frame.at] * 9 + list(MOMENTS))
    number = random.choice(NUMBERS)
    gpus = tuple(replace(gpu, utilisation=number, power=number) for gpu in frame.gpus)
    training = replace(frame.training, loss=random.choice([0.1, 1e300])) if frame.training else None
    steps = tuple(wild(random, batch) for batch in frame.steps)
    sent = replace(frame, at=moment, gpus=gpus, training=training, steps=steps)
    try:
        return frames.frame(frames.frame_message(sent).SerializeToString())
    except ValueError:
        return None


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.randoms(use_true_random=False))
def test_whatever_numbers_agents_send_the_picture_goes_on(random: Random) -> None:
    came: list[Event] = []
    for event in of_few:
        if not isinstance(event, FrameArrived) or random.random() < 0.5:
            came.append(event)
        elif (frame := said(random, event.frame)) is not None:
            came.append(replace(event, frame=frame))
            json.dumps([rows.frame_row(came[-1]), *rows.step_lines(came[-1])], allow_nan=False)
    for snapshot in watched(FEW, came):
        appearance(snapshot)
