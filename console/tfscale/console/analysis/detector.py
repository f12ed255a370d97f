"""Interface of the rules: a detector observes frames, and returns once a second its findings about the cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tfscale.console.analysis.baselines.run_facts import Trained
from tfscale.console.analysis.condition.cluster_condition import ClusterCondition, Condition
from tfscale.console.analysis.observed.observed_task import ObservedTask
from tfscale.console.analysis.steps.aligned_steps import AlignedSteps
from tfscale.console.analysis.steps.newest_steps import NewestSteps
from tfscale.console.analysis.steps.step_table import StepTable
from tfscale.console.analysis.stragglers.straggler_figures import StragglerFigures
from tfscale.console.analysis.tasks.hangs import EVENT
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.records.frame import Frame


@dataclass(frozen=True, slots=True)
class StepView:
    """Steps of the subjects that stand for the cluster: its workers, else their replicas, else asynchronous workers."""

    window: AlignedSteps
    """The newest aligned steps."""
    counted: tuple[StepTable, tuple[str, ...], str]
    """The steps that stand for the time of the run: (table, subjects, name of their numbering)."""
    newest: NewestSteps | None
    """None before the first step."""
    is_asynchronous: bool
    """True where each worker makes steps at its own pace."""
    local_steps: int
    """Global steps in one step of this view."""
    compared: Sequence[tuple[tuple[str, ...], Mapping[str, StragglerFigures]]]
    """Subjects of each group that do equal work, and the figures of the stragglers among them."""
    late: tuple[str, ...]
    """Subjects whose data come last, where the others' own speed of input is unknown."""
    keeps_step: bool
    """True where several trainings that no strategy joins make their steps at the same times."""


@dataclass(slots=True)
class ClusterView:
    """Facts about the cluster at one moment, for all detectors."""

    now: float
    """Unix seconds on the observer's clock."""
    by_name: Mapping[str, ObservedTask]
    """All tasks of the cluster."""
    condition: ClusterCondition
    steps: StepView
    found: list[Diagnosis] = field(default_factory=list)
    """Findings of the detectors before this one."""
    trained: Trained | None = None
    """Training of the newest steps, as the detector of limits has found it; None before a step."""

    @property
    def tasks(self) -> tuple[ObservedTask, ...]:
        return tuple(self.by_name.values())

    @property
    def is_brief_pause(self) -> bool:
        """True while the cluster makes no step, for too short a time to be an event."""
        still = self.condition.stillness
        return self.condition.kind is Condition.STILL and still is not None and still.seconds <= EVENT

    @property
    def has_pace(self) -> bool:
        """True where findings about the pace hold."""
        return self.condition.may_be_judged or self.is_brief_pause


class Detector:
    """One rule, or several rules with a shared memory. `detectors.py` has all detectors in one list."""

    def observe(self, task: str, frame: Frame) -> None:
        """Take in a frame of a task's agent, as far as the rule needs it."""

    def diagnose(self, view: ClusterView) -> list[Diagnosis]:
        """Return the present findings; ended ones are left out, unless such a finding is told at its end."""
        raise NotImplementedError

    def explain(self, view: ClusterView) -> list[Diagnosis]:
        """Return the findings of all detectors; this detector adds its explanation to some."""
        return view.found
