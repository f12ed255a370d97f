"""Gives stragglers their cause, and keeps it: a cause that changes with every look would be believed by nobody."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tfscale.core.analysis.causes import Case, Cause, Facts, case, explain, moving_phase, only_gpus, with_cause
from tfscale.core.analysis.steps import Aligned
from tfscale.core.analysis.tasks import TaskView
from tfscale.core.analysis.vitals import UNKNOWN, Samples
from tfscale.core.records import Diagnosis, ProbeStatus
from tfscale.core.task import subject_owner

PATIENCE = 5
"""Looks in a row that another cause must match before it replaces the one that was told."""
MOST_CASES = 2
"""Stragglers that are looked into at one look; of more, those whose turn it is."""
MOST_PEERS = 32
"""Peers whose counters are looked at: enough for a median."""


@dataclass(slots=True)
class _Told:
    cause: Cause
    other: str = ""
    looks: int = 0

    def see(self, cause: Cause) -> None:
        """Another cause has to last; any cause at once takes the place of none, and none never that of one."""
        if self.cause.kind == "unknown":
            self.cause = cause
        elif cause.kind == "unknown" or cause.name == self.cause.name:
            self.looks = 0
        else:
            self.looks = self.looks + 1 if cause.name == self.other else 1
            self.other = cause.name
            if self.looks >= PATIENCE:
                self.cause, self.looks = cause, 0


@dataclass(slots=True)
class Explainer:
    """Remembers the cause of each open straggler, and the phase of an open imbalance."""

    _told: dict[str, _Told] = field(default_factory=dict)
    _phase: tuple[str, float] | None = None

    def explain(
        self,
        diagnoses: Sequence[Diagnosis],
        windows: Sequence[Aligned],
        tasks: Mapping[str, TaskView],
        samples: Mapping[str, Samples],
    ) -> list[Diagnosis]:
        """The diagnoses, stragglers with their cause and an imbalance with its phase.

        `windows` are the newest steps of each group of subjects that were compared with each other.
        """
        stragglers = {each.subject: each for each in diagnoses if each.kind == "straggler"}
        # Those that were looked at longest ago come first in the dictionary, the new ones before them.
        kept = {name: told for name, told in self._told.items() if name in stragglers}
        self._told = {name: _Told(Cause("unknown")) for name in stragglers if name not in kept} | kept
        for name in list(self._told)[:MOST_CASES]:
            told = self._told[name] = self._told.pop(name)
            if (straggler := _case_of(stragglers[name], windows, tasks, samples)) is not None:
                told.see(explain(straggler))
        if all(each.kind != "imbalance" for each in diagnoses):
            self._phase = None
        return [self._with_reason(each, windows) for each in diagnoses]

    def _with_reason(self, diagnosis: Diagnosis, windows: Sequence[Aligned]) -> Diagnosis:
        if diagnosis.kind == "straggler":
            return with_cause(diagnosis, self._told[diagnosis.subject].cause)
        if diagnosis.kind == "imbalance":
            self._phase = self._phase or next((found for each in windows if (found := moving_phase(each))), None)
            return with_phase(diagnosis, self._phase)
        return diagnosis


def _case_of(
    straggler: Diagnosis, windows: Sequence[Aligned], tasks: Mapping[str, TaskView], samples: Mapping[str, Samples]
) -> Case | None:
    subject = straggler.subject
    window = next((each for each in windows if subject in each.subjects and len(each) and len(each.subjects) > 1), None)
    if window is None:
        return None
    column, own = window.subjects.index(subject), subject_owner(subject)
    others = list(dict.fromkeys(name for each in window.subjects if (name := subject_owner(each)) != own))
    step = max(1, len(others) // MOST_PEERS)
    peers = [facts(tasks.get(name), samples.get(name), straggler.begin) for name in others[::step]]
    mine = facts(tasks.get(own), samples.get(own), straggler.begin)
    if not peers:
        mine = replace(mine, vitals=only_gpus(mine.vitals), examples=None)
    slow = window.since(straggler.begin)
    return case(slow if len(slow) else window, column, mine, peers)


def facts(view: TaskView | None, samples: Samples | None, since: float) -> Facts:
    """What is known of a task beside its steps, as it is since then."""
    examples = own_examples(view.probe) if view is not None else None
    return Facts(samples.vitals(since) if samples is not None else UNKNOWN, examples)


def own_examples(probe: ProbeStatus | None) -> float | None:
    """Examples a step of this task alone: its probe tells its own share times the number of shares."""
    if probe is None or not (probe.examples_per_step and probe.replicas and probe.local_replicas):
        return None
    return probe.examples_per_step * probe.local_replicas / probe.replicas


def with_phase(imbalance: Diagnosis, found: tuple[str, float] | None) -> Diagnosis:
    """An imbalance with the phase in which most of it lies, where that is clear."""
    if found is None:
        return imbalance
    phase, share = found
    cause = {"input": "input", "compute": "uneven"}.get(phase, phase)
    evidence = {**imbalance.evidence, "phase": phase, "share": share, "cause": cause}
    return replace(imbalance, sentence=f"{imbalance.sentence}; mostly in {phase}", evidence=evidence)
