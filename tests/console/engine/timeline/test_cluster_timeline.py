"""One entry an incident, whatever number of tasks it takes along."""

from __future__ import annotations

import fakes
from simulated_runs import simulated
from tfscale.console.engine.events import FrameArrived, LinkChanged, LinkState, SecondPassed
from tfscale.console.engine.model import TimelineEntry
from tfscale.console.engine.state_factory import states
from tfscale.console.engine.timeline.cluster_timeline import TOGETHER, Timeline
from tfscale.console.sources.simulation.simulated import simulated_spec
from tfscale.core.records.task_status import Exit, TaskState, TaskStatus

ASKED = "restart asked for at the console by ann (operator)"


def told(seconds: int, workers: int, fault: str) -> tuple[TimelineEntry, ...]:
    """Return the entries of a simulated cluster with a fault."""
    state, entries = states(simulated_spec(workers))(), tuple[TimelineEntry, ...]()
    for event in simulated(seconds, workers, fault):
        state.fold(event)
        if isinstance(event, SecondPassed):
            entries = state.snapshot(event.at).timeline
    return entries


def test_a_crash_and_all_who_followed_it_are_one_entry_at_its_time() -> None:
    (entry,) = told(40, 24, "worker:5=kill@20s")
    assert (entry.kind, entry.subject, round(entry.at - fakes.NOW)) == ("crash", "worker:5", 20)
    assert entry.story.startswith("worker:5 was killed by SIGKILL") and "and 20 others" in entry.text


def test_a_straggler_is_an_entry_at_its_begin_and_one_at_its_end_with_its_life_and_its_worst() -> None:
    begin, end = told(60, 4, "worker:1=1.6x@8s-40s")
    assert begin.severity == "serious" and (end.severity, round(end.at - fakes.NOW)) == ("good", 40)
    assert end.text.startswith("worker:1 was 1.6x slower in compute for 32 s") and "the cluster lost" in end.text


def test_ends_of_many_tasks_push_nothing_else_out_before_anybody_knows_who_was_first() -> None:
    timeline = Timeline()
    timeline.add(fakes.NOW, "warning", "cluster", "kept", "policy")
    for index in range(999):
        end = TaskStatus(TaskState.EXITED, 1, 1, exit=Exit(1, None, fakes.NOW + 2))
        timeline.add_status(fakes.NOW + 2 + index / 200, "critical", fakes.worker(index), end)
    kept, ends = timeline.entries()
    assert (kept.text, ends.story) == ("kept", "worker:0, 1, 2, 3, 4, 5, 6 and 992 others: exited 1")
    timeline.add_news(fakes.NOW + 2 + 2 * TOGETHER, "critical", fakes.worker(3), "exited 1", "task")
    assert [entry.subject for entry in timeline.entries()[2:]] == ["worker:3"]


def test_a_restart_of_many_tasks_is_one_entry_with_who_asked_for_it() -> None:
    timeline, tasks = Timeline(), [fakes.worker(index) for index in range(3)]
    for at, state, generation in (
        (1.0, TaskState.STOPPING, 1),
        (2.0, TaskState.EXITED, 1),
        (3.0, TaskState.STARTING, 2),
        (4.0, TaskState.RUNNING, 2),
    ):
        end = Exit(None, 15, at, requested=True) if state is TaskState.EXITED else None
        for task in tasks:
            timeline.add_status(at, "info", task, TaskStatus(state, generation, 1, exit=end, reason=ASKED))
    (entry,) = timeline.entries()
    assert (entry.at, entry.story) == (1.0, f"worker:0, 1 and 2: running, generation 2, attempt 1 ({ASKED})")


def test_a_stop_without_a_start_and_a_start_long_after_it_are_two() -> None:
    timeline, task = Timeline(), fakes.worker(0)
    timeline.add_status(1.0, "info", task, TaskStatus(TaskState.STOPPING, 1, 1, reason="stop"))
    timeline.add_status(900.0, "good", task, TaskStatus(TaskState.RUNNING, 2, 1))
    assert [entry.text for entry in timeline.entries()] == ["stopping (stop)", "running, generation 2, attempt 1"]


def test_agents_that_are_lost_together_share_an_entry_and_so_does_their_return() -> None:
    spec = fakes.spec(4)
    state = states(spec)()
    for at, link in ((0.0, LinkState.UP), (5.0, LinkState.DOWN), (9.0, LinkState.UP)):
        for index in range(4):
            task = fakes.worker(index)
            state.fold(LinkChanged(fakes.NOW + at, task, link, "does not answer"))
            state.fold(FrameArrived(fakes.NOW + at, task, fakes.frame(task)))
    stories = [entry.story for entry in state.picture(fakes.NOW + 10).timeline]
    assert stories == [
        "worker:0, 1, 2 and 3: agent down: does not answer",
        "worker:0, 1, 2 and 3: agent is back",
    ]
