"""Workers whose own gradients were the first ones that are not finite.

In synchronous training the all-reduce makes the gradients, and then the weights and losses, of all workers non-finite.
Before it, in one step, only the gradients of the causing workers are.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from tfscale.console.analysis.observed.observed_task import ObservedTask
from tfscale.core.records.training import Gradients
from tfscale.core.text import clock, listing, plural

MOST_SKIPPED = 30
"""Steps in a row that loss scaling may skip. It finds its scale by halving, mostly from 2^15 on, and twice that many
halvings suffice; with fewer a usual start would be reported, with more a broken training is reported later."""


class Whose(StrEnum):
    """Share of the workers whose gradients were not finite in the first such step."""

    ONE = "one"
    SEVERAL = "several"
    ALL = "all"
    UNKNOWN = "unknown"
    """Too few workers report their gradients: another may have been first."""


class LostGradients(NamedTuple):
    """First step in which gradients were not finite before the all-reduce."""

    whose: Whose
    subjects: tuple[str, ...]
    """Names of the tasks that reported it; for a task with some finite replicas, the names of the other replicas."""
    begin: float
    """Unix seconds on the clock of the first subject's host."""
    gradients: Gradients
    """Gradients of the first subject, as its task reported them."""
    lasts: bool
    """True if the gradients have not been finite for more steps than loss scaling skips."""

    @property
    def step(self) -> int:
        """The optimizer's iterations in this step; where unknown, the number of the step, from 1."""
        known = self.gradients.global_step
        return known if known is not None else (self.gradients.sequence or 0) + 1

    @property
    def sentence(self) -> str:
        """Sentence that names the workers, or gives the reason for naming none."""
        return f"the gradients of {self._of_whom}: what is trained from here on is lost"

    @property
    def _of_whom(self) -> str:
        found = self.gradients
        at = f"step {self.step:,} ({clock(self.begin)}"
        first = f", first {found.first}" if found.first else ""
        variables = f", {found.variables} of {plural(found.checked or 0, 'variable')}{first})"
        match self.whose:
            case Whose.ALL:
                noun = "replicas" if "/" in self.subjects[0] else "workers"
                return (
                    f"all {len(self.subjects)} {noun} had NaN or infinity at once, in {at}), of none before the others"
                )
            case Whose.UNKNOWN:
                return (
                    f"{listing(self.subjects)} had NaN or infinity in {at}{variables}, whose had it first is not known"
                )
        return f"{listing(self.subjects)} were the first with NaN or infinity, in {at}{variables}"


def lost_gradients(tasks: Sequence[ObservedTask]) -> LostGradients | None:
    """Return the first step with gradients that are not finite, None while all known gradients are finite."""
    known = [(task, task.gradients) for task in tasks if task.meets and task.gradients is not None]
    lost = [(task, each) for task, each in known if each.steps and each.sequence is not None]
    if not lost:
        return None
    step = min(each.sequence or 0 for _, each in lost)
    first = [(task, each) for task, each in lost if each.sequence == step]
    # A worker that has not told of this step yet may have had it, too.
    others = [task for task, each in known if each.sequence != step and (each.steps or task.steps > step)]
    subjects, are_all = _subjects(first, bool(others))
    begin, gradients = min(((each.since or task.at or 0.0, each) for task, each in first), key=lambda pair: pair[0])
    untold = sum(task.meets for task in tasks) - len(first) - len(others)
    whose = _whose(subjects, are_all, untold)
    return LostGradients(whose, subjects, begin, gradients, any(each.steps > MOST_SKIPPED for _, each in lost))


def _subjects(first: Sequence[tuple[ObservedTask, Gradients]], has_others: bool) -> tuple[tuple[str, ...], bool]:
    """Return the affected tasks, or replicas where others of the task were finite; and whether these are all."""
    names: list[str] = []
    are_all = not has_others
    for task, gradients in first:
        replicas = task.probe.local_replicas if task.probe and task.probe.local_replicas else 1
        is_whole = len(gradients.replicas) >= replicas
        are_all &= is_whole
        if is_whole and (replicas == 1 or has_others):
            names.append(task.name)
        else:
            names += [f"{task.name}/replica:{replica}" for replica in gradients.replicas]
    return tuple(names), are_all


def _whose(subjects: Sequence[str], are_all: bool, untold: int) -> Whose:
    if are_all:
        # Of a worker that tells nothing it is not known whether it had this before.
        return Whose.UNKNOWN if untold or len(subjects) == 1 else Whose.ALL
    return Whose.ONE if len(subjects) == 1 else Whose.SEVERAL
