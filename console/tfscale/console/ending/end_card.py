"""End card: a run in some lines, once it is over."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from pathlib import Path

from tfscale.console.analysis.headline import all_ended
from tfscale.console.ending.run_memory import RunMemory
from tfscale.console.engine.model import Snapshot, TaskView
from tfscale.console.engine.stop_condition import has_ended_well
from tfscale.console.report.run_report import RunGroup
from tfscale.console.report.timelines import PhaseTimeline
from tfscale.console.report.verdict import verdict
from tfscale.core.text import exit_clause

_MOST_NUMBERS = 5
"""Numbers of the training that are told: Keras may log many."""


@dataclass(frozen=True, slots=True)
class EndCard:
    """Statements about a run, each measured."""

    run: str
    end: str
    """Manner of its end."""
    is_well: bool
    facts: tuple[tuple[str, str], ...]
    """(name, text) of each line."""

    def lines(self, width: int) -> list[str]:
        """Return the card as plain text of at most `width` characters a line, as far as its words allow."""
        lines = [f"{self.run}: {self.end}"]
        for name, text in self.facts:
            lines += textwrap.wrap(text, max(40, width), initial_indent=f"  {name:10}", subsequent_indent=" " * 12)
        return lines


def end_card(snapshot: Snapshot, memory: RunMemory, recording: Path | None, *, asked: str = "") -> EndCard | None:
    """Return the card of a run that is over, or is `asked` for before; None before, and where no step was measured.

    `recording` is the file that has the run, if any; `asked` the manner of an end that no task has told.
    """
    is_measured = bool(memory.steps) and any(snapshot.findings.spent.values())
    if not is_measured or not (asked or is_over(snapshot)):
        return None
    facts = [("steps", f"{_steps(memory)} in {verdict(_group(snapshot, memory))}")]
    facts += [("limit", limit.sentence) for limit in memory.limits[:1]]
    numbers = [f"{name} {text}" for name, text in memory.numbers.items()][:_MOST_NUMBERS]
    facts += [("training", "   ".join(numbers))] if numbers else []
    facts += memory.resources.facts().items()
    command = f"tfscale-console report {recording}"
    how = command if recording else "not recorded; --record FILE keeps a run for tfscale-console report FILE"
    facts.append(("report", how))
    end, is_well = manner_of_end(snapshot, asked)
    return EndCard(snapshot.run, end, is_well, tuple(facts))


def is_over(snapshot: Snapshot) -> bool:
    """Decide whether all tasks have ended, and none is about to be started again."""
    return snapshot.is_over and not any(view.status and view.status.restart_at for view in snapshot.tasks)


def manner_of_end(snapshot: Snapshot, asked: str = "") -> tuple[str, bool]:
    """Return how a run has ended, and whether well; `asked` is the manner of an end that no task has told."""
    if not snapshot.is_over:
        return asked, True
    failed = [view for view in snapshot.tasks if not has_ended_well(view)]
    if failed:
        return _failure(min(failed, key=_ended_at)), False
    return all_ended([view.status.exit for view in snapshot.tasks if view.status and view.status.exit]), True


def _failure(view: TaskView) -> str:
    return f"{view.task} {exit_clause(view.status.exit if view.status else None)}"


def _ended_at(view: TaskView) -> float:
    return view.status.exit.at if view.status and view.status.exit else float("inf")


def _steps(memory: RunMemory) -> str:
    """Return the number of steps, and the newest one where a checkpoint or a repetition makes it another number."""
    steps, reached = memory.steps, memory.reached
    is_same = reached is None or abs(reached - steps) <= 1
    return f"{steps:,} steps" if is_same else f"{steps:,} steps, up to step {reached:,},"


def _group(snapshot: Snapshot, memory: RunMemory) -> RunGroup:
    """Return what the report's verdict reads of a run."""
    return RunGroup(
        snapshot.run, PhaseTimeline(), {}, memory.steps, snapshot.at, snapshot.at,
        spent=snapshot.findings.spent, findings=memory.ledger.findings,
    )  # fmt: skip
