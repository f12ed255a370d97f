"""Worth of a restart for one slow worker: whether the policy can mend the slowness, at which price, with which gain.

The rule: docs/how-it-works/ownership.md#a-slow-worker.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tfscale.console.analysis.causes.cause_rules import CLOCK, DEVICE, UNKNOWN
from tfscale.console.analysis.causes.cause_words import IN_A_WORD
from tfscale.console.analysis.finding_kinds import kind_of
from tfscale.console.analysis.findings import SEVERITIES
from tfscale.core.cluster.recovery_policy import OnStraggler
from tfscale.core.cluster.task import Role, subject_task
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.text import elapsed, times

LASTS = 120.0
"""Seconds for which a worker must make the others wait without a break before its restart. Noise of other tenants
lasts for seconds, a neighbour's job for minutes, and a restart costs about this time, too: earlier it would mend
what ends by itself, later it would lose more than it costs."""
PAYS_BACK = 1800.0
"""Seconds within which a restart must pay for itself: few trainings with a worker worth a word end before. With
more, a restart could outlast its training's need; with less, it would be refused where it pays."""
ASSUMED = 120.0
"""Seconds that a restart costs where none was measured: a stop takes up to half a minute, TensorFlow's start and the
first graphs up to a minute and a half. A lower guess would restart for too little gain, a higher one too seldom."""
_LEAST_SEVERITY = "serious"
_HALF = 0.5
"""Share of the expected gain that a restart must have brought to be repeated: with less the slowness has another
cause, and the next restart would cost as much and gain as little."""
_OWN_PROCESS = frozenset({"host", UNKNOWN, DEVICE})
_MENDED: Mapping[OnStraggler, frozenset[str]] = {
    OnStraggler.TELL: frozenset(),
    OnStraggler.RESTART: _OWN_PROCESS,
    OnStraggler.REPLACE: _OWN_PROCESS | {"thermal", "power", "cpu", "memory"},
}
"""Causes that each policy mends: late data and unequal work would be the same after any restart."""


@dataclass(frozen=True, slots=True)
class PolicyRestart:
    """Restart by the policy of which the gain is measured."""

    worker: str
    gained: float | None
    """Share of the rate before; None where the rates are not compared."""
    expected: float | None

    @property
    def was_worth_it(self) -> bool:
        return self.gained is not None and self.expected is not None and self.gained >= _HALF * self.expected

    @property
    def words(self) -> str:
        """Sentence about a restart that is not repeated; empty if it was worth its price or its gain is unknown."""
        if self.gained is None or self.expected is None or self.was_worth_it:
            return ""
        gained = f"{self.gained:.0%}" if self.gained >= 0.005 else "nothing"
        return f"restart of {self.worker} gained {gained} ({self.expected:.0%} expected): not tried again"


def lone_straggler(diagnoses: Sequence[Diagnosis]) -> Diagnosis | None:
    """Return the only straggler, if it is certain and costs much; None beside any finding that forbids a restart.

    Several at once rather have a shared cause; half of all may be another kind of hardware.
    """
    present = [each for each in diagnoses if each.end is None]
    stragglers = [each for each in present if each.kind == "straggler"]
    if len(stragglers) != 1 or any(kind_of(each).forbids_restart for each in present):
        return None
    slow = stragglers[0]
    if SEVERITIES.index(slow.severity) < SEVERITIES.index(_LEAST_SEVERITY):
        return None
    if "/" in slow.subject or "suspected" in slow.evidence:
        return None
    # Its own link is full: what it computes waits for its bytes.
    if any(each.kind == "saturation" and each.subject == slow.subject for each in present):
        return None
    task = subject_task(slow.subject)
    return slow if task is not None and task.role in (Role.WORKER, Role.CHIEF) else None


def why_not_mended(straggler: Diagnosis, policy: OnStraggler) -> str:
    """Return why a restart by this policy does not mend the slowness, empty where it may."""
    evidence = straggler.evidence
    causes = [str(evidence.get("cause") or UNKNOWN), *([str(evidence["also"])] if evidence.get("also") else [])]
    what = "a restart" if policy is OnStraggler.RESTART else "another host"
    if left := next((cause for cause in causes if cause not in _MENDED[policy]), None):
        return f"{IN_A_WORD.get(left, f'slow by {left}')}, which {what} does not mend"
    if evidence.get("phase") == "input":
        return f"waiting for its data, which {what} does not mend"
    if policy is OnStraggler.REPLACE:
        return ""
    if _is_faulty_gpu(straggler):
        return "its GPU itself is slow, which a restart does not mend"
    return "" if "step_before" in evidence else "it was never seen to be as fast as the others, and may be so again"


def _is_faulty_gpu(straggler: Diagnosis) -> bool:
    """Decide whether the straggler's GPU reports errors, or runs at a lower clock than the others' GPUs."""
    pace = straggler.number("clock_to_peers")
    return any(straggler.evidence.get(name) for name in ("xid", "ecc_errors")) or (pace is not None and pace < CLOCK)


def gain(straggler: Diagnosis) -> float:
    """Return the share by which the cluster is faster without the straggler."""
    return (straggler.number("slowdown") or 1.0) - 1


def pays_back_after(straggler: Diagnosis, downtime: float | None, untrained: float) -> float:
    """Return the seconds after which a restart is paid back.

    Args:
        straggler: the slow worker.
        downtime: seconds that a restart of the same tasks has cost, without the steps that it repeated; None unknown.
        untrained: seconds of training since the last checkpoint, which the cluster repeats at its better rate.
    """
    share = gain(straggler)
    if share <= 0:
        return math.inf
    return ((ASSUMED if downtime is None else downtime) + untrained / (1 + share)) / share


def why_not_paid_back(after: float) -> str:
    """Return why a restart that pays for itself in `after` seconds is not worth it, empty where it is."""
    if math.isinf(after):
        return "a restart now gains nothing"
    return "" if after <= PAYS_BACK else f"a restart now would be paid back after {elapsed(after)} only"


def reason(straggler: Diagnosis, repeated: float | None) -> str:
    """Return the reason of the restart, with the number of `repeated` steps; None where that is unknown."""
    share, evidence = gain(straggler), straggler.evidence
    steps = "" if not repeated else f", some {repeated:,.0f} steps repeated"
    ratio = straggler.number("phase_ratio")
    return (
        f"on_straggler: {straggler.subject} {'' if ratio is None else f'{times(ratio)} '}slower in "
        f"{evidence.get('phase')}, the cluster loses {1 - 1 / (1 + share):.0%}; expected gain {share:.0%}{steps}"
    )


def by_policy(restart: Diagnosis) -> PolicyRestart | None:
    """Return a measured restart (a diagnosis of that kind) as a restart of the policy, None for any other."""
    worker = restart.evidence.get("restarted_for")
    if restart.kind != "restart" or not isinstance(worker, str):
        return None
    return PolicyRestart(worker, restart.number("gained"), restart.number("expected"))


def downtime_of(restart: Diagnosis, local_steps: int) -> float | None:
    """Return the seconds that a measured restart has cost without its repeated steps; None unknown."""
    lost, rate = restart.number("lost_seconds"), restart.number("rate")
    if lost is None or not rate:
        return None
    repeated = (restart.number("repeated") or 0.0) + (restart.number("to_repeat") or 0.0)
    return max(0.0, lost - repeated / local_steps / rate)
