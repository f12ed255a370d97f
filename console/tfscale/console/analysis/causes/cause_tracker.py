"""The causes of open stragglers, kept from one evaluation to the next: a cause must not change with every sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tfscale.console.analysis.causes.cause_rules import (
    UNKNOWN,
    Case,
    Cause,
    Facts,
    explain,
    only_gpus,
    quotes_figures,
)
from tfscale.console.analysis.causes.cause_words import with_causes
from tfscale.console.analysis.causes.vitals import NO_VITALS, Samples
from tfscale.console.analysis.observed.observed_task import ObservedTask
from tfscale.console.analysis.stragglers.straggler_figures import StragglerFigures
from tfscale.console.analysis.stragglers.straggler_words import told_together
from tfscale.core.cluster.task import subject_owner
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.records.probe_status import ProbeStatus

PATIENCE = 5
"""Evaluations in a row that another cause must match before it replaces the reported cause. Counters are medians of
10 s, half of which must change; with fewer the sentence would change with a single sample."""
MOST_CASES = 2
"""Stragglers that are explained in one evaluation; more stragglers take turns. Each explanation reads the counters
of up to 33 tasks, and where many are slow at once, a second more until a cause is known matters little."""
MOST_PEERS = 32
"""Peers whose counters are read: a median over more would hardly differ, over a handful one odd host would move it."""

Compared = tuple[tuple[str, ...], Mapping[str, StragglerFigures]]
"""Compared subjects, and the figures of the stragglers among them."""


@dataclass(slots=True)
class _TrackedCause:
    cause: Cause = field(default_factory=lambda: Cause(UNKNOWN))
    figures: StragglerFigures | None = None
    """The figures that `cause` was found with."""
    rival: str = ""
    """Name of another cause that has matched since the last report."""
    matches: int = 0
    """Evaluations in a row that the rival has matched."""

    def update(self, cause: Cause, figures: StragglerFigures) -> None:
        """Take in the cause found now. Another cause has to last; any cause replaces an unknown one at once.

        Once the straggler was measured anew, the clause quotes none of the old figures.
        """
        is_outdated = figures is not self.figures and (quotes_figures(self.cause) or cause.name == self.cause.name)
        self.figures = figures
        if self.cause.kind == UNKNOWN or is_outdated:
            self.cause, self.matches = cause, 0
        elif cause.kind == UNKNOWN or cause.name == self.cause.name:
            self.matches = 0
        else:
            self.matches = self.matches + 1 if cause.name == self.rival else 1
            self.rival = cause.name
            if self.matches >= PATIENCE:
                self.cause, self.matches = cause, 0


@dataclass(slots=True)
class CauseTracker:
    """Memory of the cause of each open straggler."""

    _tracked: dict[str, _TrackedCause] = field(default_factory=dict)
    """Causes by subject, the one explained longest ago first."""

    def explain(
        self,
        diagnoses: Sequence[Diagnosis],
        groups: Sequence[Compared],
        tasks: Mapping[str, ObservedTask],
        samples: Mapping[str, Samples],
        now: float,
    ) -> list[Diagnosis]:
        """Return the diagnoses at `now`, Unix seconds, stragglers with their cause."""
        stragglers = {diagnosis.subject: diagnosis for diagnosis in diagnoses if diagnosis.kind == "straggler"}
        remaining = {name: tracked for name, tracked in self._tracked.items() if name in stragglers}
        self._tracked = {name: _TrackedCause() for name in stragglers if name not in remaining} | remaining
        for name in list(self._tracked)[:MOST_CASES]:
            self._tracked[name] = tracked = self._tracked.pop(name)
            if (case := _case_of(stragglers[name], groups, tasks, samples)) is not None:
                tracked.update(explain(case), case.figures)
        self._renew_figures(groups)
        explained = {
            straggler.subject: straggler
            for each in told_together(list(stragglers.values()))
            for straggler in with_causes(each, [self._tracked[one.subject].cause for one in each], now)
        }
        return [explained[each.subject] if each.kind == "straggler" else each for each in diagnoses]

    def _renew_figures(self, groups: Sequence[Compared]) -> None:
        """Update the causes of newly measured stragglers whose turn has not come, from their figures alone."""
        figures = {name: measured for _, stragglers in groups for name, measured in stragglers.items()}
        for name, tracked in self._tracked.items():
            current = figures.get(name, tracked.figures)
            if tracked.figures is not None and current is not None and current is not tracked.figures:
                tracked.update(explain(Case(current, Facts(), ())), current)


def _case_of(
    straggler: Diagnosis,
    groups: Sequence[Compared],
    tasks: Mapping[str, ObservedTask],
    samples: Mapping[str, Samples],
) -> Case | None:
    subject = straggler.subject
    compared = next((group for group in groups if subject in group[0] and subject in group[1]), None)
    if compared is None:
        return None
    subjects, figures = compared
    owner = subject_owner(subject)
    others = list(dict.fromkeys(name for other in subjects if (name := subject_owner(other)) != owner))
    stride = max(1, len(others) // MOST_PEERS)
    peers = [facts(tasks.get(name), samples.get(name), straggler.begin) for name in others[::stride]]
    own = facts(tasks.get(owner), samples.get(owner), straggler.begin)
    if not peers:
        own = replace(own, vitals=only_gpus(own.vitals), examples=None)
    return Case(figures[subject], own, peers)


def facts(task: ObservedTask | None, samples: Samples | None, since: float) -> Facts:
    """Return facts about a task besides its steps, from samples after `since`, Unix seconds."""
    examples = own_examples(task.probe) if task is not None else None
    return Facts(samples.vitals(since) if samples is not None else NO_VITALS, examples)


def own_examples(probe: ProbeStatus | None) -> float | None:
    """Return the examples a step of this task alone: the probe reports one share's times the number of shares."""
    if probe is None or not (probe.examples_per_step and probe.replicas and probe.local_replicas):
        return None
    return probe.examples_per_step * probe.local_replicas / probe.replicas
