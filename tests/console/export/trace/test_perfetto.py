"""`export --format perfetto`: what Perfetto's own trace processor answers about the traces of simulated runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path

import fakes
import pytest
import simulated_runs
from command_words import run_command
from tfscale.console.engine.events import Event, FrameArrived
from tfscale.console.sources.simulation.simulated import PLAIN, Shape, simulated_spec
from tfscale.core.cluster.task import Task
from tfscale.core.errors import UsageError
from tfscale.core.records.probe_status import Activity, ActivityKind
from traces.trace_processor import OpenedTrace, opened

ENDS = """
    SELECT track.name AS task, extract_arg(slice.arg_set_id, 'debug.sequence') AS step, slice.ts + slice.dur AS end
    FROM slice JOIN track ON track_id = track.id WHERE slice.name = 'step' AND track.name LIKE 'worker:%'
"""
APART = f"SELECT step, max(end) - min(end) AS apart FROM ({ENDS}) GROUP BY step"
Export = Callable[[Sequence[Event]], AbstractContextManager[OpenedTrace]]


@pytest.fixture
def export(tmp_path: Path) -> Export:
    """Return a function that exports the events of a simulated run, and opens the trace."""

    def export(events: Sequence[Event], workers: int = 3, shape: Shape = PLAIN) -> AbstractContextManager[OpenedTrace]:
        recording = simulated_runs.record(tmp_path / "run.tfrec", events, simulated_spec(workers, shape))
        trace = tmp_path / "run.pftrace"
        assert run_command("export", recording, "--format", "perfetto", "--out", trace) == 0
        assert [path.name for path in tmp_path.iterdir() if path.suffix == ".new"] == []
        return opened(trace, tmp_path)

    return export


def ahead(events: Sequence[Event], task: str, clock: Callable[[float], float]) -> list[Event]:
    """Return the events of a run in which the clock of a task's host is so many seconds ahead at each time."""

    def told(event: Event) -> Event:
        if not isinstance(event, FrameArrived) or str(event.task) != task:
            return event
        frame = event.frame
        steps = tuple(replace(each, end=[end + clock(end) for end in each.end]) for each in frame.steps)
        activities = tuple(replace(each, begin=each.begin + clock(each.begin)) for each in frame.activities)
        shifted = replace(frame, at=frame.at + clock(frame.at), steps=steps, activities=activities)
        return replace(event, frame=shifted, message=None)

    return [*map(told, events)]


def constant(seconds: float, _: float) -> float:
    return seconds


def test_every_step_has_its_phases_one_after_the_other(export: Export) -> None:
    with export(simulated_runs.simulated(10, 3)) as trace:
        counts = f"SELECT task, count(*) AS steps FROM ({ENDS}) GROUP BY 1"
        steps = {row["task"]: row["steps"] for row in trace.rows(counts)}
        assert list(steps) == [f"worker:{index} on node-000{index}" for index in range(3)] and min(steps.values()) > 80
        inner = """
            SELECT step.id, step.dur, sum(phase.dur) AS phases, min(phase.ts) - step.ts AS before,
                group_concat(phase.name) AS names
            FROM slice AS step JOIN slice AS phase ON phase.parent_id = step.id WHERE step.name = 'step' GROUP BY 1
        """
        for row in trace.rows(inner):
            assert row["names"] == "update,host,input,compute,reduce"
            assert row["before"] == 0 and 0 <= row["dur"] - row["phases"] < 5_000
        assert trace.rows("SELECT * FROM stats WHERE severity IN ('error', 'data_loss') AND value > 0") == []


def test_who_is_late_to_the_all_reduces_is_told_and_the_others_wait_for_it(export: Export) -> None:
    with export(simulated_runs.simulated(20, 3, "worker:1=1.8x@4s")) as trace:
        last = """
            SELECT extract_arg(arg_set_id, 'debug.last') AS task, count(*) AS n,
                avg(extract_arg(arg_set_id, 'debug.waited for it')) AS seconds
            FROM slice WHERE name = 'all-reduce' GROUP BY 1 ORDER BY 2 DESC
        """
        slow, *_ = trace.rows(last)
        assert slow["task"] == "worker:1" and slow["seconds"] == pytest.approx(0.059, abs=0.012)
        waits = """
            SELECT track.name AS task, sum(slice.dur) / 1e9 AS seconds
            FROM slice JOIN track ON track_id = track.id WHERE slice.name = 'wait' GROUP BY 1 ORDER BY 2
        """
        assert next(row["task"][:8] for row in trace.rows(waits)) == "worker:1"
        finding, *_ = trace.rows(
            "SELECT extract_arg(arg_set_id, 'debug.sentence') AS text, dur FROM slice WHERE name = 'straggler'"
        )
        assert finding["text"].startswith("worker:1 has been slow for") and finding["dur"] > 5e9


@pytest.mark.parametrize("seconds", [0.004, 40.0])
def test_hosts_whose_clocks_differ_are_brought_to_one_axis(export: Export, seconds: float) -> None:
    with export(ahead(simulated_runs.simulated(10, 3), "worker:1", partial(constant, seconds))) as trace:
        apart = [row["apart"] for row in trace.rows(APART)]
        assert len(apart) > 80 and max(apart) < 2_000
        counters = """
            SELECT owner.name AS task, track.name AS name, value
            FROM counter JOIN track ON track_id = track.id JOIN track AS owner ON track.parent_id = owner.id
        """
        values = trace.rows(counters)
        clocks = {row["task"][:8]: row["value"] for row in values if row["name"] == "clock ahead"}
        assert clocks["worker:1"] - clocks["worker:0"] == pytest.approx(seconds, abs=1e-5)
        assert {round(row["value"], 3) for row in values if row["name"] == "alignment error"} == {0.013}


def test_a_clock_that_drifts_is_followed(export: Export) -> None:
    def drift(at: float) -> float:
        return 1e-4 * (at - fakes.NOW)

    with export(ahead(simulated_runs.simulated(40, 3), "worker:2", drift)) as trace:
        apart = [row["apart"] for row in trace.rows(APART)]
        assert len(apart) > 300 and max(apart) < 1_000_000  # of 4 ms in all


def test_a_clock_that_is_set_is_aligned_anew_within_a_second(export: Export) -> None:
    def is_set(at: float) -> float:
        return 30.0 if at > fakes.NOW + 10 else 0.0

    with export(ahead(simulated_runs.simulated(25, 3), "worker:2", is_set)) as trace:
        wrong = [row["step"] for row in trace.rows(APART) if row["apart"] > 2_000]
        assert len(wrong) < 15


def test_activities_are_where_the_steps_are_by_the_same_clock(export: Export) -> None:
    compiled = Activity(ActivityKind.COMPILE, fakes.NOW + 3.0, fakes.NOW + 3.5)

    def told(event: Event) -> Event:
        if isinstance(event, FrameArrived) and event.task == Task.parse("worker:1") and event.frame.sequence == 4:
            return replace(event, frame=replace(event.frame, activities=(compiled,)), message=None)
        return event

    run = ahead([*map(told, simulated_runs.simulated(10, 3))], "worker:1", partial(constant, 60.0))
    with export(run) as trace:
        (row,) = trace.rows("SELECT ts, dur FROM slice WHERE name = 'compile'")
        assert abs(row["ts"] / 1e9 - fakes.NOW - 3.0) < 0.1


def test_a_restart_begins_anew_and_nothing_of_before_is_lost(export: Export) -> None:
    with export(simulated_runs.simulated(40, 2, "worker:1=kill@8s-14s"), 2) as trace:
        generations = """
            SELECT extract_arg(slice.arg_set_id, 'debug.generation') AS generation, group_concat(slice.name) AS states
            FROM slice JOIN track ON track_id = track.id JOIN track AS owner ON track.parent_id = owner.id
            WHERE track.name = 'state' AND owner.name LIKE 'worker:1 %' GROUP BY 1 ORDER BY 1
        """
        assert [row["generation"] for row in trace.rows(generations)] == [1, 2]
        first = [
            row["end"] for row in trace.rows(f"SELECT step, max(end) AS end FROM ({ENDS}) GROUP BY task, step, end")
        ]
        before = [end for end in first if end < (fakes.NOW + 8.2) * 1e9]
        assert 130 < len(before) < 170 and len(first) > 350  # of two workers, 10 a second


def test_stages_of_a_pipeline_are_by_the_clock_of_their_worker(export: Export) -> None:
    run = ahead(simulated_runs.simulated(10, 3, shape=Shape(stages=2)), "worker:1", partial(constant, 50.0))
    with export(run, shape=Shape(stages=2)) as trace:
        stages = """
            SELECT track.name AS stage, min(ts) AS begin, count(*) AS steps
            FROM slice JOIN track ON track_id = track.id LEFT JOIN track AS owner ON track.parent_id = owner.id
            WHERE slice.name = 'step' AND coalesce(owner.name, track.name) LIKE 'worker:1 %' GROUP BY 1 ORDER BY 1
        """
        found = trace.rows(stages)
        assert [row["stage"] for row in found] == ["stage:0", "stage:1", "worker:1 on node-0001"]
        assert (
            max(abs(row["begin"] / 1e9 - fakes.NOW) for row in found) < 1.5
            and len({row["steps"] for row in found}) == 1
        )


@pytest.mark.parametrize(
    ("content", "answer"), [(b"\xff" * 9, "is no profile of TensorFlow"), (b"", "does not say when it was taken")]
)
def test_what_is_no_profile_is_refused_and_nothing_is_written(tmp_path: Path, content: bytes, answer: str) -> None:
    recording = simulated_runs.record(tmp_path / "run.tfrec", simulated_runs.simulated(3), simulated_spec(2))
    (tmp_path / "worker-1.xplane.pb").write_bytes(content)
    with pytest.raises(UsageError, match=answer):
        run_command("export", recording, "--format", "perfetto", "--profiles", tmp_path, "--out", tmp_path / "trace")
    assert not [path for path in tmp_path.iterdir() if "trace" in path.name]


def test_a_folder_without_profiles_is_refused(tmp_path: Path) -> None:
    recording = simulated_runs.record(tmp_path / "run.tfrec", simulated_runs.simulated(3), simulated_spec(2))
    words = ("export", recording, "--format", "perfetto", "--profiles", tmp_path, "--out", tmp_path / "trace")
    with pytest.raises(UsageError, match=r"has no profile of a task, such as worker-0\.xplane\.pb"):
        run_command(*words)
    with pytest.raises(UsageError, match="--profiles needs --format perfetto"):
        run_command("export", recording, "--profiles", tmp_path)


def test_a_worker_that_was_placed_on_another_host_has_a_group_for_each(export: Export) -> None:
    shape = Shape(spares=1)
    groups = "SELECT name FROM track WHERE name LIKE 'worker:2 on %' ORDER BY id"
    states = """
        SELECT extract_arg(slice.arg_set_id, 'debug.generation') AS generation, owner.name AS owner FROM slice
        JOIN track ON track_id = track.id JOIN track AS owner ON track.parent_id = owner.id
        WHERE track.name = 'state' AND owner.name LIKE 'worker:2 on %' AND slice.name = 'running' ORDER BY slice.ts
    """
    with export(simulated_runs.simulated(60, 3, "worker:2=gone@5s", shape=shape), shape=shape) as trace:
        assert [row["name"] for row in trace.rows(groups)] == ["worker:2 on node-0002", "worker:2 on node-0003"]
        assert [tuple(row.values()) for row in trace.rows(states)] == [
            (1, "worker:2 on node-0002"),
            (2, "worker:2 on node-0003"),
        ]
