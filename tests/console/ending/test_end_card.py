"""The end of a run in some lines: each number is one that was measured, and there is none before the end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import fakes
from simulated_runs import simulated
from tfscale.console.ending.end_card import EndCard, end_card
from tfscale.console.ending.run_memory import RunMemory
from tfscale.console.engine.events import FrameArrived, SecondPassed
from tfscale.console.engine.model import Snapshot
from tfscale.console.engine.state_factory import states
from tfscale.console.sources.simulation.simulated import simulated_spec
from tfscale.core.records.task_status import Exit, TaskState
from tfscale.core.records.training import LoggedNumber, Training


def watched(exit: Exit | None, *faults: str, restart_at: float | None = None) -> tuple[Snapshot, RunMemory]:
    """Return the last snapshot of two workers that have trained for 50 s, and have ended."""
    state, memory = states(simulated_spec(2))(), RunMemory()
    for event in simulated(50, 2, *faults):
        state.fold(event)
        memory.fold(event)
        if isinstance(event, SecondPassed):
            memory.add(state.snapshot(event.at))
    for view in state.picture(fakes.NOW + 50).tasks:
        assert view.frame is not None
        ended = fakes.status(TaskState.EXITED, pid=None, exit=exit, restart_at=restart_at)
        frame = replace(view.frame, sequence=view.frame.sequence + 1, at=fakes.NOW + 50, status=ended)
        state.fold(FrameArrived(fakes.NOW + 50, view.task, frame if exit else view.frame))
    snapshot = state.snapshot(fakes.NOW + 51)
    memory.add(snapshot)
    return snapshot, memory


def facts(card: EndCard | None) -> dict[str, str]:
    assert card is not None
    return dict(card.facts)


def test_the_card_has_the_steps_what_was_lost_to_whom_and_the_report() -> None:
    snapshot, memory = watched(Exit(0, None, fakes.NOW + 50), "worker:1=60ms,input@15s")
    card = end_card(snapshot, memory, Path("run.tfrec"))
    assert card is not None and (card.end, card.is_well) == ("all tasks have ended well", True)
    told = facts(card)
    assert told["steps"].startswith(f"{memory.steps:,} steps in 5") and memory.steps > 300
    assert "1 straggler, worker:1, waiting for its data, cost" in told["steps"]
    assert told["training"].startswith("loss ") and "accuracy" in told["training"]
    assert told["report"] == "tfscale-console report run.tfrec"
    assert card.lines(60)[0] == "simulated: all tasks have ended well"
    assert max(map(len, card.lines(60))) <= 60


def test_a_failure_is_the_end_that_came_first() -> None:
    snapshot, memory = watched(Exit(None, 9, fakes.NOW + 50))
    card = end_card(snapshot, memory, None)
    assert card is not None and not card.is_well and card.end.startswith("worker:0 was killed by SIGKILL")
    assert facts(card)["report"].startswith("not recorded")


def test_there_is_no_card_while_the_run_goes_on_or_of_a_program_that_made_no_step() -> None:
    snapshot, memory = watched(None)
    assert end_card(snapshot, memory, None) is None
    asked = end_card(snapshot, memory, None, asked="ended from this console")
    assert asked is not None and asked.end == "ended from this console"
    assert end_card(snapshot, RunMemory(), None, asked="ended from this console") is None
    again, memory = watched(Exit(1, None, fakes.NOW + 50), restart_at=fakes.NOW + 60)
    assert end_card(again, memory, None) is None, "it is about to start again"


def test_repeated_steps_are_told_beside_the_step_that_was_reached() -> None:
    snapshot, memory = watched(Exit(0, None, fakes.NOW + 50))
    made, memory.reached = memory.steps, memory.steps - 100
    assert facts(end_card(snapshot, memory, None))["steps"].startswith(f"{made} steps, up to step {made - 100}, in ")


def test_a_number_that_is_none_is_not_called_one() -> None:
    snapshot, memory = watched(Exit(0, None, fakes.NOW + 50))
    view = snapshot.tasks[0]
    assert view.frame is not None
    training = Training(finite=False, logs=(LoggedNumber("accuracy", 0.5), LoggedNumber("mae", None)))
    lost = replace(view, frame=replace(view.frame, training=training))
    memory.add(replace(snapshot, tasks=(lost,), findings=replace(snapshot.findings)))
    assert facts(end_card(snapshot, memory, None))["training"] == "loss NaN   accuracy 0.5   mae NaN"
