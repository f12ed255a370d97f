"""Judgement of a loop's measured steps: each delay in its own phase, and all facts right."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from report_sink import PHASES, Row
from tfscale.v1 import telemetry_pb2

from cells.cell_group import Group, Ran, run_group

DELAY = 20.0
"""Milliseconds, as in `programs/cells/cell_blocks.py`."""
BLOCK = 16
TOLERANCE = 0.2
ELSEWHERE = 6.0
"""Milliseconds by which another phase may change: these machines are busy."""
KNOWN = 0.98
ANEW = 4
"""Rounds of all delays when a cell is measured again."""
STRATEGIES = {
    "none": None,
    "one_device": "OneDeviceStrategy",
    "mirrored": "MirroredStrategy",
    "central_storage": "CentralStorageStrategy",
    "multi_worker": "MultiWorkerMirroredStrategy",
    "multi_worker_replicas": "MultiWorkerMirroredStrategy",
}
COLLECTIVES = {
    "mirrored": "LOCAL",
    "central_storage": "LOCAL",
    "multi_worker": "RING",
    "multi_worker_replicas": "RING",
}


@dataclass
class Verdict:
    """Verdict on one cell: the milliseconds that each delay should have shown and did, and all that was wrong."""

    shown: dict[str, tuple[float, float]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    is_second: bool = False
    """True if it is of the second, longer measurement."""

    @property
    def worst(self) -> float:
        """The largest error, as a ratio with its sign."""
        return max((shown / delay - 1 for delay, shown in self.shown.values()), key=abs, default=math.nan)

    def check(self, holds: bool, problem: str) -> None:
        if not holds:
            self.problems.append(problem)


def judged(group: Group, loop: str) -> Verdict:
    """Judge one loop of a group; where it is not well, train it again, alone and for `ANEW` rounds, and judge that.

    A burst of other work on this machine, or more replicas than it has cores, is none of the probe's.
    """
    verdict = judge(group, loop)
    if verdict.problems:
        verdict = judge(run_group(group.strategy, group.legacy, (loop,), ANEW), loop)
        verdict.is_second = True
    return verdict


def judge(group: Group, loop: str) -> Verdict:
    """Judge one loop of a group."""
    ran, verdict = group.loops[loop], Verdict()
    if ran.error or not ran.facts:
        verdict.problems.append(
            ran.error or f"the program ended before this loop did; its log ends: {group.log[-1500:]}"
        )
        return verdict
    subject = group.sink.task
    look_at_rows(group, loop, ran, verdict)
    look_at_facts(group, loop, ran, verdict)
    for name in dict.fromkeys(name for name, *_ in ran.blocks if name != "none"):
        look_at_delay(loop, name, Change.of(group, ran, subject, name), verdict)
    if ran.facts["local_replicas"] > 1 and loop != "eager":
        look_at_replicas(group, ran, verdict)
    if ran.facts["validations"]:
        look_at_validation(group, ran, verdict)
    return verdict


@dataclass
class Change:
    """Effect of one delay: the median over its blocks, each beside the undelayed blocks before and after it.

    `periods`: in how many steps a phase's delay comes once.
    """

    blocks: list[tuple[list[Row], tuple[list[Row], list[Row]]]]
    """The rows of each delayed block, and of the undelayed ones next to it."""
    periods: dict[str, int]

    @classmethod
    def of(cls, group: Group, ran: Ran, subject: str, name: str) -> Change:
        rows = group.sink.rows.get(subject, [])
        inside = [[row for row in rows if begin < row.end <= end] for _, begin, end in ran.blocks]
        places = [place for place, (each, *_) in enumerate(ran.blocks) if each == name]
        # Each delayed block stands between two that are not.
        blocks = [(inside[place], (inside[place - 1], inside[place + 1])) for place in places]
        return cls(blocks, ran.facts["periods"])

    def phase(self, name: str) -> float:
        """Return the milliseconds that the delay has added to a phase."""
        return self._middle(lambda rows: [1000 * getattr(row, name) for row in rows], self.periods.get(name, 1))

    def step(self) -> float:
        """Return the milliseconds that the delay has added from the end of a step to the next."""
        return self._middle(lambda rows: [1000 * (after.end - row.end) for row, after in pairwise(rows)], 1)

    def _middle(self, column: Callable[[list[Row]], list[float]], period: int) -> float:
        return statistics.median(
            middle(column(delayed), period) - statistics.mean(middle(column(rows), period) for rows in plain)
            for delayed, plain in self.blocks
        )


def middle(values: Sequence[float], period: int) -> float:
    """Return the median; of means over `period` steps where a delay comes once in so many."""
    groups = [values[first : first + period] for first in range(0, len(values) - period + 1, period)]
    known = [mean for mean in map(statistics.mean, groups) if not math.isnan(mean)]
    return statistics.median(known) if known else math.nan


def look_at_rows(group: Group, loop: str, ran: Ran, verdict: Verdict) -> None:
    reduces = group.strategy in COLLECTIVES
    subjects = [group.sink.task]
    if ran.facts["local_replicas"] > 1 and loop != "eager":
        subjects += [f"{group.sink.task}/replica:{number}" for number in range(ran.facts["local_replicas"])]
    for subject in subjects:
        rows = [row for row in group.sink.rows.get(subject, []) if ran.began < row.end <= ran.done]
        if not rows:
            verdict.problems.append(f"{subject}: not one step came")
            continue
        gaps = [(one.sequence, next_.sequence) for one, next_ in pairwise(rows) if next_.sequence != one.sequence + 1]
        verdict.check(not gaps, f"{subject}: gaps in the sequence, {gaps[:5]}")
        for name, begin, end in ran.blocks:
            count = sum(begin < row.end <= end for row in rows)
            verdict.check(count == BLOCK, f"{subject}: {count} steps in block {name}, not {BLOCK}")
        inside = [row for row in rows if any(begin < row.end <= end for _, begin, end in ran.blocks)]
        for phase in PHASES:
            known = sum(not math.isnan(getattr(row, phase)) for row in inside)
            if phase == "reduce" and not reduces:
                verdict.check(known == 0, f"{subject}: reduce is known where nothing is reduced")
            else:
                verdict.check(
                    known >= KNOWN * len(inside), f"{subject}: {phase} known in {known} of {len(inside)} steps"
                )


def look_at_delay(loop: str, name: str, found: Change, verdict: Verdict) -> None:
    own = {"wire": "reduce", "replica": "compute"}.get(name, name)
    change = {phase: found.phase(phase) for phase in PHASES}
    # TensorFlow does its own work while the bytes travel, and other replicas compute faster while one that shares their
    # cores sleeps: what these two cost the worker is what its steps took longer.
    expected = found.step() if name in ("wire", "replica") else DELAY
    if name == "update" and loop == "sparse":
        # Sparse gradients are gathered after the dense ones are reduced: the dense variables' updates begin meanwhile.
        return
    verdict.shown[name] = expected, change[own]
    error = change[own] / expected - 1
    verdict.check(abs(error) <= TOLERANCE, f"{name}: {expected:.1f} ms show as {change[own]:.1f} ms in {own}")
    verdict.check(expected > DELAY / 3, f"{name}: the delay cost only {expected:.1f} ms")
    for phase in PHASES:
        # Less is no fault: a reduction that nobody waits for hides behind a delayed update.
        if phase != own and change[phase] >= ELSEWHERE:
            verdict.problems.append(f"{name}: {phase} moved by {change[phase]:+.1f} ms")


def look_at_replicas(group: Group, ran: Ran, verdict: Verdict) -> None:
    """Judge the replicas: replica 1 was slow for a while, replica 0 was not."""
    change = []
    for number in range(2):
        found = Change.of(group, ran, f"{group.sink.task}/replica:{number}", "replica")
        change.append(found.phase("compute"))
    verdict.shown["replica 1"] = DELAY, change[1]
    verdict.check(abs(change[1] / DELAY - 1) <= TOLERANCE, f"replica 1: 20 ms show as {change[1]:.1f} ms in compute")
    verdict.check(abs(change[0]) < ELSEWHERE, f"replica 0: compute moved by {change[0]:+.1f} ms, not slow itself")


def look_at_facts(group: Group, loop: str, ran: Ran, verdict: Verdict) -> None:
    told = [status for at, status in group.sink.statuses if at <= ran.done]
    if not told:
        verdict.problems.append("the probe never told what it is")
        return
    status, facts = told[-1], ran.facts
    late = loop == "several" and group.strategy == "none"
    collective = COLLECTIVES.get(group.strategy)
    expected = {
        "state": telemetry_pb2.PROBE_STATE_MEASURING,
        "strategy": "OneDeviceStrategy" if late else STRATEGIES[group.strategy],
        "collective": collective,
        "reduced_bytes_per_step": facts["bytes"] if collective else None,
        "examples_per_step": facts["examples"],
    }
    if collective:
        expected |= {"replicas": facts["replicas"], "local_replicas": facts["local_replicas"]}
    optional = {field.name for field in status.DESCRIPTOR.fields if field.has_presence}
    for name, value in expected.items():
        said = getattr(status, name) if name not in optional or status.HasField(name) else None
        verdict.check(
            said == value, f"{name}: {said!r} and not {value!r}" + f" ({status.message})" * bool(status.message)
        )


def look_at_validation(group: Group, ran: Ran, verdict: Verdict) -> None:
    kind = telemetry_pb2.ACTIVITY_KIND_EVALUATION
    told = [each for each in group.sink.activities.values() if each.kind == kind and ran.began < each.begin < ran.done]
    lasted = [each.end - each.begin for each in told if each.HasField("end")]
    least = 0.9 * ran.facts["validation_seconds"]
    verdict.check(
        len(lasted) == len(told) == ran.facts["validations"] and min(lasted, default=0) >= least,
        f"evaluation: {len(told)} activities of {lasted} s, not {ran.facts['validations']} of {least} s or more",
    )
    rows = [row for row in group.sink.rows.get(group.sink.task, []) if ran.began < row.end <= ran.done]
    inside = [row.host for row in rows if any(begin < row.end <= end for _, begin, end in ran.blocks)]
    long = [round(1000 * host) for host in inside if host >= least]
    verdict.check(not long, f"evaluation: the host part of {len(long)} steps took {long} ms")
