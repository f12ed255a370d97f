"""Facts that a view and a snapshot derive from their fields."""

from __future__ import annotations

from dataclasses import replace

import fakes
from tfscale.console.analysis.findings import Findings
from tfscale.console.engine.events import LinkState
from tfscale.console.engine.model import Link, Snapshot, TaskView
from tfscale.core.records.task_status import TaskState

FIRST, SECOND = fakes.worker(0), fakes.worker(1)
SPEC = fakes.spec(2)


def view(state: TaskState = TaskState.RUNNING, link: LinkState = LinkState.UP) -> TaskView:
    return TaskView(FIRST, SPEC.agents[FIRST], Link(link), frame=fakes.frame(FIRST, of=fakes.status(state)))


def test_a_task_is_up_only_while_its_agent_says_so() -> None:
    assert view().is_up
    assert not view(TaskState.EXITED).is_up
    assert not view(link=LinkState.DOWN).is_up
    assert view(link=LinkState.DOWN).is_stale and not view().is_stale


def test_a_view_of_which_nothing_is_known_says_so() -> None:
    nothing = TaskView(FIRST, SPEC.agents[FIRST])
    assert (nothing.status, nothing.is_up, nothing.host) == (None, False, "10.0.0.2")
    assert replace(nothing, description=fakes.description(FIRST)).host == "node-00"


def test_a_snapshot_counts_and_finds_its_tasks() -> None:
    views = (view(), replace(view(TaskState.EXITED), task=SECOND))
    snapshot = Snapshot(fakes.NOW, "digits", None, None, views, Findings())
    assert snapshot.up == 1
    assert snapshot.view(SECOND) is views[1]
