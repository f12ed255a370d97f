"""The table of legal transitions, its diagram in the documentation, and the error for an illegal one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tfscale.agent.supervision.supervisor import Supervisor, TaskSpec
from tfscale.agent.supervision.transitions import TRANSITIONS, InvalidTransition
from tfscale.core.records.task_status import TaskState, TaskStatus

DOCUMENT = Path(__file__).parents[3] / "docs" / "how-it-works" / "ownership.md"
ARROW = re.compile(r"^ {4}([A-Z]+) +--> ([A-Z |]+?)(?:  .*)?$", re.MULTILINE)


def test_the_diagram_in_the_documentation_is_the_table() -> None:
    drawn = {
        TaskState[state]: {TaskState[each] for each in after.split(" | ")}
        for state, after in ARROW.findall(DOCUMENT.read_text())
    }
    assert drawn == TRANSITIONS


def test_every_state_but_the_first_can_be_reached() -> None:
    assert set(TRANSITIONS) == set(TaskState)
    assert frozenset().union(*TRANSITIONS.values()) == set(TaskState) - {TaskState.PENDING}


def test_an_illegal_transition_tells_the_tasks_story(spec: TaskSpec) -> None:
    supervisor = Supervisor(spec, lambda _: None)
    supervisor._become(TaskStatus(TaskState.STARTING, 3, 1, reason="restart by request"))
    supervisor._become(TaskStatus(TaskState.LOST, 3, 1, reason="its shim died"))
    with pytest.raises(InvalidTransition) as caught:
        supervisor._become(TaskStatus(TaskState.RUNNING, 3, 1))
    assert str(caught.value) == (
        "running must not follow lost in generation 3, attempt 1 'its shim died'; the story so far: "
        "pending in generation 0, attempt 0 ''; starting in generation 3, attempt 1 'restart by request'; "
        "lost in generation 3, attempt 1 'its shim died'"
    )
    assert supervisor.status.state is TaskState.LOST
