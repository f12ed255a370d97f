"""Why a straggler is slow: the first rule that matches, from where its time goes and what its host's counters say.

A counter is evidence only where it sets the straggler apart from its peers: what all of them show slows nobody down
in particular. docs/diagnosis.md has each rule with its threshold and source.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace

from tfscale.core.analysis.causes.vitals import UNKNOWN, Vitals, middle
from tfscale.core.analysis.stragglers.straggler_figures import StragglerFigures
from tfscale.core.analysis.words import duration
from tfscale.core.records import Diagnosis

CAUSES = ("input", "host", "thermal", "power", "cpu", "memory", "uneven", "device", "network", "unknown")
"""In the order in which they are asked."""

OF_FIGURES = ("input", "host")
"""Causes whose clause holds a number of the straggler's figures."""
_HALF = 0.5
_INPUT_SHARE = 0.05
"""Of the step [TF profiler: moderately input-bound]."""
_PRESSURE = 0.10
"""PSI `some avg10`..."""
_TIMES_PEERS = 2.0
"""... and this many times the peers'."""
_THROTTLED = 0.05
"""Seconds a second in which the cgroup's limit held the task back."""
_SWAPPING = 1e6
"""Bytes a second by which swap grows."""
_CLOCK = 0.9
"""Of the peers' clock."""
_UNEVEN = 1.05
"""Times the peers' examples."""
_GPU_FIELDS = {"gpu", "gpu_memory", "temperature", "clock", "heat", "power_brake", "power_cap", "ecc_errors", "xid"}

Evidence = dict[str, float | str | None]


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a subject beside its steps."""

    vitals: Vitals = UNKNOWN
    examples: float | None = None
    """Its own examples a step."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Why, in a word of CAUSES, in the words of a sentence (empty: nothing to add), and in numbers."""

    kind: str
    clause: str = ""
    evidence: Evidence = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The kind, and the kind of the cause that is told with it."""
        return f"{self.kind} {self.evidence.get('also', '')}"


@dataclass(frozen=True, slots=True)
class Case:
    """One straggler: where it loses time, and what sets it apart."""

    figures: StragglerFigures
    own: Facts
    peers: Sequence[Facts]

    def share(self, *phases: str) -> float:
        """The part of all the time lost that is lost in these phases."""
        excess = self.figures.excess
        lost = sum(max(0.0, extra) for extra in excess.values())
        return sum(max(0.0, excess[phase]) for phase in phases) / lost if lost > 0 else 0.0

    def of_peers(self, name: str) -> float | None:
        """The median of one vital over the peers, None where none of them tells it."""
        return middle(getattr(peer.vitals, name) for peer in self.peers)

    def stands_out(self, name: str, least: float) -> bool:
        """Whether a vital is at least this, and twice what it is with the peers."""
        own = getattr(self.own.vitals, name)
        return own is not None and own >= max(least, _TIMES_PEERS * (self.of_peers(name) or 0.0))


def explain(straggler: Case) -> Cause:
    """The first cause that matches; another that matches as well is told with it."""
    matching = [cause for rule in _RULES if (cause := rule(straggler)) is not None]
    if not matching:
        return _slow_device(straggler) or Cause("unknown")
    first, *rest = matching
    if not rest:
        return first
    second = rest[0]
    evidence = {**second.evidence, **first.evidence, "also": second.kind}
    return Cause(first.kind, f"{first.clause}, and {second.clause}", evidence)


def with_cause(diagnosis: Diagnosis, cause: Cause) -> Diagnosis:
    """The diagnosis with its cause in the evidence and, after who it is, in the sentence."""
    who, mark, cost = diagnosis.sentence.partition("; ")
    sentence = f"{who}: {cause.clause}{mark}{cost}" if cause.clause else diagnosis.sentence
    return replace(diagnosis, sentence=sentence, evidence={**diagnosis.evidence, "cause": cause.kind, **cause.evidence})


def only_gpus(vitals: Vitals) -> Vitals:
    """Without what replicas of one host share, and what therefore makes none of them slower than the others."""
    shared = {each.name: None for each in fields(Vitals) if each.name not in _GPU_FIELDS}
    return replace(vitals, **shared)


def _input(straggler: Case) -> Cause | None:
    share = straggler.figures.excess["input"] / straggler.figures.step
    if straggler.share("input") < _HALF or share < _INPUT_SHARE:
        return None
    return Cause("input", f"it waits {share:.0%} of the step longer for its data", {"input_share": share})


def _host(straggler: Case) -> Cause | None:
    if straggler.share("host") < _HALF:
        return None
    extra = straggler.figures.excess["host"]
    return Cause(
        "host", f"its Python between steps (callbacks, logging) takes {duration(extra)} longer", {"host": extra}
    )


def _thermal(straggler: Case) -> Cause | None:
    own = straggler.own.vitals
    if not (_computes_slowly(straggler) and straggler.stands_out("heat", _HALF)):
        return None
    degrees = "" if own.temperature is None else f" ({own.temperature:.0f} °C)"
    return Cause("thermal", f"its GPU is throttled by heat{degrees}", _told(own, "heat", "temperature", "clock"))


def _power(straggler: Case) -> Cause | None:
    own = straggler.own.vitals
    if not _computes_slowly(straggler):
        return None
    if straggler.stands_out("power_brake", _HALF):
        return Cause("power", "its GPU is slowed down by its power supply", _told(own, "power_brake", "clock"))
    if own.power_cap is None or own.power_cap < _HALF or (pace := _clock_to_peers(straggler)) is None or pace >= _CLOCK:
        return None
    clause = f"its GPU is at its power limit, with its clock at {pace:.0%} of its peers'"
    return Cause("power", clause, {"clock_to_peers": pace, **_told(own, "power_cap", "clock")})


def _cpu(straggler: Case) -> Cause | None:
    own = straggler.own.vitals
    if straggler.stands_out("throttled", _THROTTLED):
        clause = f"the CPU limit of its cgroup holds it back {own.throttled:.0%} of the time"
        return Cause("cpu", clause, _told(own, "throttled", "cpu_pressure"))
    if not straggler.stands_out("cpu_pressure", _PRESSURE):
        return None
    peers = straggler.of_peers("cpu_pressure")
    beside = "" if peers is None else f", its peers' {peers:.0%}"
    clause = f"other processes compete for its CPUs (pressure {own.cpu_pressure:.0%}{beside})"
    return Cause("cpu", clause, {"cpu_pressure_of_peers": peers, **_told(own, "cpu_pressure", "cpu")})


def _memory(straggler: Case) -> Cause | None:
    own = straggler.own.vitals
    swaps, presses = straggler.stands_out("swapping", _SWAPPING), straggler.stands_out("memory_pressure", _PRESSURE)
    if not (swaps or presses):
        return None
    how = (
        f"swaps ({(own.swapping or 0.0) / 1e6:.0f} MB/s)"
        if swaps
        else f"is short of memory (pressure {own.memory_pressure:.0%})"
    )
    return Cause("memory", f"its host {how}", _told(own, "memory_pressure", "swapping", "memory"))


def _uneven(straggler: Case) -> Cause | None:
    own, peers = straggler.own.examples, middle(peer.examples for peer in straggler.peers)
    if not own or not peers or own < _UNEVEN * peers:
        return None
    clause = f"it has {own / peers:.2g}x the examples of its peers in each step"
    return Cause("uneven", clause, {"examples": own, "examples_of_peers": peers})


def _device(straggler: Case) -> Cause | None:
    own = straggler.own.vitals
    if not _computes_slowly(straggler):
        return None
    if own.xid is not None:
        return Cause("device", f"its GPU reports error XID {own.xid}", _told(own, "xid", "ecc_errors"))
    if own.ecc_errors:
        clause = f"its GPU's memory has {own.ecc_errors} new uncorrectable errors"
        return Cause("device", clause, _told(own, "ecc_errors"))
    return None


def _slow_device(straggler: Case) -> Cause | None:
    """What is left where nothing else matches: the GPU itself, without a word of its driver."""
    own = straggler.own.vitals
    if not _computes_slowly(straggler) or (own.gpu is None and own.clock is None):
        return None
    pace = _clock_to_peers(straggler)
    if pace is not None and pace < _CLOCK:
        return Cause(
            "device", f"its GPU's clock is at {pace:.0%} of its peers', nothing says why", {"clock_to_peers": pace}
        )
    return Cause("device", "its GPU computes slower at normal clocks", {"clock_to_peers": pace})


_RULES: tuple[Callable[[Case], Cause | None], ...] = (
    _input,
    _host,
    _thermal,
    _power,
    _cpu,
    _memory,
    _uneven,
    _device,
)


def _computes_slowly(straggler: Case) -> bool:
    return straggler.share("compute", "update") >= _HALF


def _clock_to_peers(straggler: Case) -> float | None:
    own, peers = straggler.own.vitals.clock, straggler.of_peers("clock")
    return own / peers if own and peers else None


def _told(vitals: Vitals, *names: str) -> Evidence:
    return {name: value for name in names if (value := getattr(vitals, name)) is not None}
