"""Gives stragglers their cause, and keeps it: a cause that changes with every look would be believed by nobody."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tfscale.core.analysis.causes.cause_rules import OF_FIGURES, Case, Cause, Facts, explain, only_gpus, with_cause
from tfscale.core.analysis.causes.vitals import UNKNOWN, Samples
from tfscale.core.analysis.stragglers.straggler_figures import StragglerFigures
from tfscale.core.analysis.tasks.observed_task import TaskView
from tfscale.core.records import Diagnosis, ProbeStatus
from tfscale.core.task import subject_owner

PATIENCE = 5
"""Looks in a row that another cause must match before it replaces the one that was told."""
MOST_CASES = 2
"""Stragglers that are looked into at one look; of more, those whose turn it is."""
MOST_PEERS = 32
"""Peers whose counters are looked at: enough for a median."""


Compared = tuple[tuple[str, ...], Mapping[str, StragglerFigures]]
"""Subjects that were compared with each other, and the figures of the stragglers among them."""


@dataclass(slots=True)
class _Told:
    cause: Cause
    figures: StragglerFigures | None = None
    other: str = ""
    looks: int = 0

    def see(self, cause: Cause, figures: StragglerFigures) -> None:
        """Another cause has to last; any cause at once takes the place of none, and none never that of one.

        Where the straggler was measured anew, a number of the old figures must not stay in the clause.
        """
        is_outdated = figures is not self.figures and (self.cause.kind in OF_FIGURES or cause.name == self.cause.name)
        self.figures = figures
        if self.cause.kind == "unknown" or is_outdated:
            self.cause, self.looks = cause, 0
        elif cause.kind == "unknown" or cause.name == self.cause.name:
            self.looks = 0
        else:
            self.looks = self.looks + 1 if cause.name == self.other else 1
            self.other = cause.name
            if self.looks >= PATIENCE:
                self.cause, self.looks = cause, 0


@dataclass(slots=True)
class Explainer:
    """Remembers the cause of each open straggler."""

    _told: dict[str, _Told] = field(default_factory=dict)

    def explain(
        self,
        diagnoses: Sequence[Diagnosis],
        groups: Sequence[Compared],
        tasks: Mapping[str, TaskView],
        samples: Mapping[str, Samples],
    ) -> list[Diagnosis]:
        """The diagnoses, stragglers with their cause."""
        stragglers = {each.subject: each for each in diagnoses if each.kind == "straggler"}
        # Those that were looked at longest ago come first in the dictionary, the new ones before them.
        kept = {name: told for name, told in self._told.items() if name in stragglers}
        self._told = {name: _Told(Cause("unknown")) for name in stragglers if name not in kept} | kept
        figures = {name: each for _, measured in groups for name, each in measured.items()}
        due = list(self._told)[:MOST_CASES]
        for name in due:
            told = self._told[name] = self._told.pop(name)
            if (straggler := _case_of(stragglers[name], groups, tasks, samples)) is not None:
                told.see(explain(straggler), straggler.figures)
        for name, told in self._told.items():
            if told.figures is not None and told.figures is not figures.get(name, told.figures):
                told.see(explain(Case(figures[name], Facts(), ())), figures[name])
        return [
            with_cause(each, self._told[each.subject].cause) if each.kind == "straggler" else each for each in diagnoses
        ]


def _case_of(
    straggler: Diagnosis, groups: Sequence[Compared], tasks: Mapping[str, TaskView], samples: Mapping[str, Samples]
) -> Case | None:
    subject = straggler.subject
    compared = next((each for each in groups if subject in each[0] and subject in each[1]), None)
    if compared is None:
        return None
    subjects, figures = compared
    own = subject_owner(subject)
    others = list(dict.fromkeys(name for each in subjects if (name := subject_owner(each)) != own))
    step = max(1, len(others) // MOST_PEERS)
    peers = [facts(tasks.get(name), samples.get(name), straggler.begin) for name in others[::step]]
    mine = facts(tasks.get(own), samples.get(own), straggler.begin)
    if not peers:
        mine = replace(mine, vitals=only_gpus(mine.vitals), examples=None)
    return Case(figures[subject], mine, peers)


def facts(view: TaskView | None, samples: Samples | None, since: float) -> Facts:
    """What is known of a task beside its steps, as it is since then."""
    examples = own_examples(view.probe) if view is not None else None
    return Facts(samples.vitals(since) if samples is not None else UNKNOWN, examples)


def own_examples(probe: ProbeStatus | None) -> float | None:
    """Examples a step of this task alone: its probe tells its own share times the number of shares."""
    if probe is None or not (probe.examples_per_step and probe.replicas and probe.local_replicas):
        return None
    return probe.examples_per_step * probe.local_replicas / probe.replicas
