"""Causes of stragglers: the first rule that matches the phase of the lost time and the counters of the host.

A counter is evidence only where it sets the straggler apart from its peers: a value that all hosts show makes no host
slower than the others. docs/reference/diagnoses.md gives the threshold and the source of each rule.

To add a cause: write a rule, put it into CAUSE_RULES at its rank, and give the cause a first step in
`first_steps._BY_CAUSE`, a noun in `cause_words.IN_A_WORD`, a place in `worth_restarting._MENDED` if a restart mends it,
and a case in tests/console/analysis/causes/test_cause_rules.py; a new counter also needs a field of `Vitals`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import NamedTuple

from tfscale.console.analysis.causes.vitals import NO_VITALS, Vitals, middle
from tfscale.console.analysis.stragglers.straggler_figures import StragglerFigures
from tfscale.core.records.diagnosis import Evidence
from tfscale.core.text import times

UNKNOWN = "unknown"
"""Kind of the cause where no rule matches."""
DEVICE = "device"
"""Kind of the cause of stragglers that compute slowly where no counter shows why."""
OF_ONE_PHASE = ("input", "host")
"""Kinds of causes that only a phase shows: each has the name of its phase."""

_HALF = 0.5
"""Share of the lost time above which a phase can hold the cause: no two phases have more than half."""
_INPUT_SHARE = 0.05
"""Share of the step [TensorFlow profiler: moderately input-bound]."""
_PRESSURE = 0.10
"""Linux PSI `some avg10`, 0 to 1: if some task waits for a tenth of the time, the step grows by at most as much,
from where on slowness is felt."""
_TIMES_PEERS = 2.0
"""Factor over the median of the peers from which on a counter stands out. Nearer to 1 noise alone would stand out;
with more, a cause that doubles a counter would not."""
_THROTTLED = 0.05
"""Seconds a second for which the cgroup's limit held the task back: the limit explains at most as large a part of
the step, and 5 % is less than a straggler loses."""
_SWAPPING = 1e6
"""Bytes a second by which swap grows: a slower growth is pages that nobody uses."""
CLOCK = 0.9
"""Clock over that of the peers: GPUs of one kind differ by some percent at the same work, and less than a
straggler's 7 % would explain nothing."""
_UNEVEN = 1.05
"""Examples a step over those of the peers: a slightly smaller last batch makes no difference, and less than a
straggler's 7 % would explain nothing."""
_GPU_FIELDS = {"gpu", "gpu_memory", "temperature", "clock", "heat", "power_brake", "power_cap", "ecc_errors", "xid"}


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts about a subject besides its steps."""

    vitals: Vitals = NO_VITALS
    examples: float | None = None
    """Its own examples a step."""


class Reason(NamedTuple):
    """A rule's result: the next part of the sentence, and its numbers."""

    clause: str
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class Cause:
    """The cause of one straggler."""

    kind: str
    """A key of CAUSE_RULES, or UNKNOWN."""
    clause: str = ""
    """Likely cause in the sentence; empty without one."""
    evidence: Evidence = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Kind of the cause, with the kind of a second cause in the same sentence."""
        return f"{self.kind} {self.evidence.get('also', '')}"


@dataclass(frozen=True, slots=True)
class Case:
    """One straggler: the phase of its lost time, and the counters that set it apart from its peers."""

    figures: StragglerFigures
    own: Facts
    peers: Sequence[Facts]

    def share(self, *phases: str) -> float:
        """Return the share of all the lost time that is lost in these phases."""
        excess = self.figures.excess
        lost = sum(max(0.0, extra) for extra in excess.values())
        return sum(max(0.0, excess[phase]) for phase in phases) / lost if lost > 0 else 0.0

    def of_peers(self, name: str) -> float | None:
        """Return the median of one vital over the peers, None where no peer has it."""
        return middle(getattr(peer.vitals, name) for peer in self.peers)

    def stands_out(self, name: str, least: float) -> bool:
        """Decide whether a vital is at least `least`, and twice that of the peers."""
        own = getattr(self.own.vitals, name)
        return own is not None and own >= max(least, _TIMES_PEERS * (self.of_peers(name) or 0.0))


def explain(case: Case) -> Cause:
    """Return the cause of the first rule that matches, with the second matching cause in its evidence (`also`)."""
    matching = [(kind, reason) for kind, rule in CAUSE_RULES.items() if (reason := rule(case)) is not None]
    if not matching:
        reason = _slow_device(case)
        return Cause(DEVICE, *reason) if reason else Cause(UNKNOWN)
    (kind, first), *rest = matching
    if not rest:
        return Cause(kind, *first)
    other, second = rest[0]
    evidence = {**second.evidence, **first.evidence, "also": other}
    return Cause(kind, f"{first.clause}, and {second.clause}", evidence)


def quotes_figures(cause: Cause) -> bool:
    """Decide whether the cause's evidence holds a number of the straggler's figures."""
    return cause.kind in OF_ONE_PHASE


def only_gpus(vitals: Vitals) -> Vitals:
    """Return the vitals of the GPUs alone: replicas of a host share the host's other vitals."""
    shared = {vital.name: None for vital in fields(Vitals) if vital.name not in _GPU_FIELDS}
    return replace(vitals, **shared)


def _input(case: Case) -> Reason | None:
    share = case.figures.excess["input"] / case.figures.step
    if case.share("input") < _HALF or share < _INPUT_SHARE:
        return None
    return Reason("its data come late", {"input_share": share})


def _host(case: Case) -> Reason | None:
    if case.share("host") < _HALF:
        return None
    extra = case.figures.excess["host"]
    return Reason("its own Python (callbacks, logging, input without tf.data)", {"host": extra})


def _thermal(case: Case) -> Reason | None:
    own = case.own.vitals
    if not (_computes_slowly(case) and case.stands_out("heat", _HALF)):
        return None
    degrees = "" if own.temperature is None else f" ({own.temperature:.0f} °C)"
    return Reason(f"its GPU is throttled by heat{degrees}", _measured(own, "heat", "temperature", "clock"))


def _power(case: Case) -> Reason | None:
    own = case.own.vitals
    if not _computes_slowly(case):
        return None
    if case.stands_out("power_brake", _HALF):
        return Reason("its GPU is slowed down by its power supply", _measured(own, "power_brake", "clock"))
    if own.power_cap is None or own.power_cap < _HALF or (pace := _clock_to_peers(case)) is None or pace >= CLOCK:
        return None
    clause = f"its GPU is at its power limit, with its clock at {pace:.0%} of its peers'"
    return Reason(clause, {"clock_to_peers": pace, **_measured(own, "power_cap", "clock")})


def _cpu(case: Case) -> Reason | None:
    own = case.own.vitals
    if case.stands_out("throttled", _THROTTLED):
        clause = f"the CPU limit of its cgroup holds it back {own.throttled:.0%} of the time"
        return Reason(clause, _measured(own, "throttled", "cpu_pressure"))
    if not case.stands_out("cpu_pressure", _PRESSURE):
        return None
    peers = case.of_peers("cpu_pressure")
    comparison = "" if peers is None else f", its peers' {peers:.0%}"
    clause = f"other processes compete for its CPUs (pressure {own.cpu_pressure:.0%}{comparison})"
    return Reason(clause, {"cpu_pressure_of_peers": peers, **_measured(own, "cpu_pressure", "cpu")})


def _memory(case: Case) -> Reason | None:
    own = case.own.vitals
    swaps, presses = case.stands_out("swapping", _SWAPPING), case.stands_out("memory_pressure", _PRESSURE)
    if not (swaps or presses):
        return None
    how = (
        f"swaps ({(own.swapping or 0.0) / 1e6:.0f} MB/s)"
        if swaps
        else f"is short of memory (pressure {own.memory_pressure:.0%})"
    )
    return Reason(f"its host {how}", _measured(own, "memory_pressure", "swapping", "memory"))


def _uneven(case: Case) -> Reason | None:
    own, peers = case.own.examples, middle(peer.examples for peer in case.peers)
    if not own or not peers or own < _UNEVEN * peers:
        return None
    clause = f"it has {times(own / peers)} the examples of its peers in each step"
    return Reason(clause, {"examples": own, "examples_of_peers": peers})


def _device(case: Case) -> Reason | None:
    own = case.own.vitals
    if not _computes_slowly(case):
        return None
    if own.xid is not None:
        return Reason(f"its GPU reports error XID {own.xid}", _measured(own, "xid", "ecc_errors"))
    if own.ecc_errors:
        clause = f"its GPU's memory has {own.ecc_errors} new uncorrectable errors"
        return Reason(clause, _measured(own, "ecc_errors"))
    return None


def _slow_device(case: Case) -> Reason | None:
    """Return the reason where no rule matches: the GPU itself, without an error of its driver."""
    own = case.own.vitals
    if not _computes_slowly(case) or (own.gpu is None and own.clock is None):
        return None
    pace = _clock_to_peers(case)
    if pace is not None and pace < CLOCK:
        return Reason(f"its GPU's clock is at {pace:.0%} of its peers', nothing says why", {"clock_to_peers": pace})
    return Reason("its GPU is slow, though nothing throttles it", {"clock_to_peers": pace})


CAUSE_RULES: Mapping[str, Callable[[Case], Reason | None]] = {
    "input": _input,
    "thermal": _thermal,
    "power": _power,
    "cpu": _cpu,
    "host": _host,
    "memory": _memory,
    "uneven": _uneven,
    DEVICE: _device,
}
"""Rules of the causes in the order of their trial; a Python thread that waits for a CPU is not slow by itself."""


def _computes_slowly(case: Case) -> bool:
    return case.share("compute", "update") >= _HALF


def _clock_to_peers(case: Case) -> float | None:
    own, peers = case.own.vitals.clock, case.of_peers("clock")
    return own / peers if own and peers else None


def _measured(vitals: Vitals, *names: str) -> Evidence:
    return {name: value for name in names if (value := getattr(vitals, name)) is not None}
