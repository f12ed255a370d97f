"""Lanes of incidents: whose they are, where they begin and end."""

from __future__ import annotations

import fakes
from simulated_runs import simulated
from tfscale.console.engine.events import SecondPassed
from tfscale.console.engine.model import TimelineEntry
from tfscale.console.engine.state_factory import states
from tfscale.console.engine.timeline.lanes import Lane, lanes_of
from tfscale.console.sources.simulation.simulated import simulated_spec


def lanes_by_name(seconds: int, workers: int, *faults: str) -> dict[str, Lane]:
    state, entries = states(simulated_spec(workers))(), tuple[TimelineEntry, ...]()
    for event in simulated(seconds, workers, *faults):
        state.fold(event)
        if isinstance(event, SecondPassed):
            entries = state.snapshot(event.at).timeline
    return {lane.name: lane for lane in lanes_of(entries, workers)}


def test_an_incident_is_one_bar_from_its_begin_to_its_end_and_a_start_of_all_a_mark_of_the_cluster() -> None:
    lanes = lanes_by_name(50, 4, "worker:3=1.4x@5s-20s", "worker:1=kill@28s-33s", "worker:2=cut@42s")
    assert list(lanes) == ["cluster", "worker:3", "worker:1", "worker:2"]
    (slow,) = lanes["worker:3"].spans
    assert slow.entry.kind == "straggler" and not slow.is_mark
    assert abs(slow.begin - fakes.NOW - 5) < 2 and slow.end is not None and abs(slow.end - fakes.NOW - 20) < 6
    crash = lanes["worker:1"].spans[0]
    assert crash.entry.kind == "crash" and crash.begin == fakes.NOW + 28 and crash.end is not None
    assert [(span.entry.kind, span.is_mark, span.begin == span.end) for span in lanes["cluster"].spans] == [
        ("task", True, True)
    ]
    assert lanes["worker:2"].spans[-1].begin >= fakes.NOW + 42


def test_what_lasts_has_no_end_and_stragglers_of_one_sentence_have_a_lane_each() -> None:
    lanes = lanes_by_name(40, 8, "worker:1=1.4x@10s", "worker:5=1.4x@10s")
    assert {name: [span.end for span in lanes[name].spans][-1] for name in ("worker:1", "worker:5")} == {
        "worker:1": None,
        "worker:5": None,
    }
