"""What limits the cluster while nobody straggles, how far it is at its limit, and what would help.

Pure rules over one moment; `SaturationWatch` adds that something must last to be told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tfscale.core.analysis.causes.vitals import Vitals, middle
from tfscale.core.analysis.run import gain_models
from tfscale.core.analysis.run.gain_models import Remedy
from tfscale.core.analysis.run.scaling import bus_bandwidth
from tfscale.core.analysis.words import bits
from tfscale.core.records import Diagnosis
from tfscale.core.task import CLUSTER, Role, Task

COMMUNICATION = 0.30
"""Of the step, exposed transfer."""
FULL = 0.80
"""Of a link's speed: protocols and gaps take the rest."""
INPUT = 0.20
"""Of the step [TF profiler: highly input-bound]."""
COMPUTE = 0.70
"""Of the step, with GPUs in use 90 % of the time."""
GPU_BUSY = 0.90
GPU_MEMORY = 0.97
CPU_BUSY = 0.95
HYSTERESIS = 0.9
"""What was told stays until it is below this much of its threshold."""
SETTLE = 10.0
"""Seconds for which something must hold before it is told, and be gone before it ends."""

Evidence = dict[str, float | str | None]


@dataclass(frozen=True, slots=True)
class Load:
    """A cluster's step in medians over its newest steps and its workers, seconds."""

    step: float
    transfer: float
    input: float
    compute: float
    """With the update of the variables."""
    ranks: int
    """Participants of the gradient collective."""
    payload: float | None = None
    """Bytes handed to it in a step."""
    link: float | None = None
    """Bits a second of its slowest link, None unknown."""
    link_from: str | None = None
    """Who says so."""

    @property
    def bus(self) -> float | None:
        """Bits a second over each link while the collective runs, None unknown."""
        if not self.payload or self.transfer <= 0 or self.ranks < 2:
            return None
        return 8 * bus_bandwidth(self.payload, self.transfer, self.ranks)


@dataclass(frozen=True, slots=True)
class Limit:
    """A resource, and how near it is to its limit."""

    resource: str
    subject: str
    fraction: float
    threshold: float
    sentence: str
    share: float = 0.0
    """Of the step, that it accounts for: of several, the largest is told."""
    severity: str = "info"
    remedies: tuple[Remedy, ...] = ()
    evidence: Evidence = field(default_factory=dict)


def limits(
    load: Load | None, vitals: Mapping[str, Vitals], speeds: Mapping[str, float | None], strict: float = 1.0
) -> list[Limit]:
    """All that is at its limit (times `strict`), by task name; the largest share of the step first.

    `load` is None where no steps are lined up, `speeds` are of the tasks' links in bits a second.
    """
    hosts = list(vitals.values())
    found = [_cpu(hosts), _gpu_memory(hosts), *(_link(name, each, speeds.get(name)) for name, each in vitals.items())]
    if load is not None:
        found += [_communication(load), _input(load), _compute(load, hosts)]
    at_limit = [limit for limit in found if limit is not None and limit.fraction >= strict * limit.threshold]
    return sorted(at_limit, key=lambda limit: -limit.share)


def _communication(load: Load) -> Limit | None:
    share = load.transfer / load.step
    if load.ranks < 2:
        return None
    sentence = f"communication-bound: the all-reduce takes {share:.0%} of each step"
    evidence: Evidence = {"transfer": load.transfer, "bus_bandwidth": load.bus}
    resource = "communication"
    if load.bus and load.link:
        full = load.bus / load.link
        of = f"{bits(load.bus)} of {bits(load.link)}, {full:.0%}"
        resource = "link" if full >= FULL else resource
        sentence += f", and the link is full ({of})" if full >= FULL else f", though the link is not full ({of})"
        evidence |= {"link": load.link, "link_from": load.link_from, "link_fraction": full}
    return Limit(
        resource, CLUSTER, share, COMMUNICATION, sentence, share, _severity(share), _for_network(load), evidence
    )


def _for_network(load: Load) -> tuple[Remedy, ...]:
    step, transfer = load.step, load.transfer
    grows = min(load.compute + load.input, step - transfer)
    return (
        Remedy(
            "gradients cast to bfloat16 for the wire",
            gain_models.half_the_bytes(step, transfer),
            "half the bytes",
            True,
        ),
        Remedy(
            "accumulating 4 micro-batches", gain_models.accumulated(step, transfer, 4), "a quarter of the all-reduces"
        ),
        Remedy("a batch twice as large", gain_models.larger_batch(step, grows, 2), "compute and input double"),
        Remedy("links twice as fast", gain_models.faster_link(step, transfer, 2), "half the transfer", True),
        Remedy("fewer, stronger GPUs"),
    )


def _input(load: Load) -> Limit:
    share = load.input / load.step
    remedies = (
        Remedy(
            "prefetching and parallel maps",
            gain_models.prefetched(load.step, load.input),
            "input beside training",
            True,
        ),
        Remedy("decoding the data once and caching it"),
    )
    sentence = f"input-bound: every worker waits {share:.0%} of each step for its data"
    return Limit("input", CLUSTER, share, INPUT, sentence, share, _severity(share), remedies, {"input": load.input})


def _compute(load: Load, hosts: Sequence[Vitals]) -> Limit | None:
    """GPU-bound. Its use alone does not tell: a GPU that only waits in an all-reduce is in use too."""
    share, use = load.compute / load.step, middle(each.gpu for each in hosts)
    if use is None:
        return None
    more = gain_models.more_workers(load.step, load.transfer, load.ranks, 2 * load.ranks)
    remedies = (
        Remedy(f"{2 * load.ranks} workers instead of {load.ranks}", more, "ring all-reduce", True),
        Remedy("GPUs twice as fast", gain_models.half_the_compute(load.step, load.compute), "half the compute", True),
        Remedy("mixed precision"),
    )
    sentence = f"GPU-bound, as it should be: the GPUs compute {share:.0%} of each step, {use:.0%} in use"
    fraction = min(share / COMPUTE, use / GPU_BUSY)
    return Limit(
        "gpu", CLUSTER, fraction, 1.0, sentence, share, "info", remedies, {"gpu": use, "compute": load.compute}
    )


def _cpu(hosts: Sequence[Vitals]) -> Limit | None:
    use = middle(each.cpu for each in hosts)
    if use is None:
        return None
    has_gpus = any(each.gpu is not None for each in hosts)
    sentence = f"the hosts' CPUs are full ({use:.0%}){', which can keep the GPUs waiting' if has_gpus else ''}"
    remedies = (Remedy("more cores a host, fewer tasks on one host, or less preprocessing in the training process"),)
    severity = "warning" if has_gpus else "info"
    return Limit("cpu", CLUSTER, use, CPU_BUSY, sentence, 0.0, severity, remedies, {"cpu": use})


def _gpu_memory(hosts: Sequence[Vitals]) -> Limit | None:
    use = middle(each.gpu_memory for each in hosts)
    if use is None:
        return None
    sentence = f"{use:.0%} of the GPUs' memory is taken; TensorFlow reserves all of it unless growth is allowed"
    remedies = (Remedy("a smaller batch on each GPU with gradient accumulation, or mixed precision"),)
    return Limit("gpu_memory", CLUSTER, use, GPU_MEMORY, sentence, 0.0, "info", remedies, {"gpu_memory": use})


def _link(task: str, vitals: Vitals, speed: float | None) -> Limit | None:
    """A task's link over whole seconds, whatever uses it: a parameter server's pulls and pushes, data, others."""
    if speed is None or vitals.sent is None or vitals.received is None:
        return None
    sends = vitals.sent >= vitals.received
    moved = 8 * max(vitals.sent, vitals.received)
    fraction, does = moved / speed, "sends" if sends else "receives"
    sentence = f"the link of {task} is full: it {does} {bits(moved)} of {bits(speed)} ({fraction:.0%})"
    serves = Task.parse(task).role is Role.PS
    remedies = (Remedy("more parameter servers" if serves else "a faster link"), Remedy("gradients cast to bfloat16"))
    evidence: Evidence = {"sent": vitals.sent, "received": vitals.received, "link": speed}
    resource = "server_link" if serves else "task_link"
    return Limit(resource, task, fraction, FULL, sentence, 0.0, "warning", remedies, evidence)


def _severity(share: float) -> str:
    return "serious" if share >= 0.6 else "warning" if share >= 0.3 else "info"


@dataclass(slots=True)
class _Held:
    limit: Limit
    begin: float
    seen: float
    told: bool = False


@dataclass(slots=True)
class SaturationWatch:
    """One diagnosis a subject: what takes the largest share of the step, once it has lasted."""

    _held: dict[tuple[str, str], _Held] = field(default_factory=dict)

    def diagnose(
        self, load: Load | None, vitals: Mapping[str, Vitals], speeds: Mapping[str, float | None], now: float
    ) -> list[Diagnosis]:
        """What is at its limit for `SETTLE` seconds by `now`."""
        for limit in limits(load, vitals, speeds, HYSTERESIS):
            self._see(limit, now)
        self._held = {key: held for key, held in self._held.items() if now - held.seen < SETTLE}
        for held in self._held.values():
            held.told = held.told or held.seen - held.begin >= SETTLE
        return self.told()

    def clear(self) -> None:
        """Somebody straggles: what limits the others says nothing."""
        self._held = {}

    def told(self) -> list[Diagnosis]:
        """The largest of each subject."""
        by_subject: dict[str, list[_Held]] = {}
        for held in sorted((each for each in self._held.values() if each.told), key=lambda each: -each.limit.share):
            by_subject.setdefault(held.limit.subject, []).append(held)
        return [_describe(first, rest) for first, *rest in by_subject.values()]

    def _see(self, limit: Limit, now: float) -> None:
        # A link that fills up is the same limit as the communication that fills it.
        key = ("communication" if limit.resource == "link" else limit.resource, limit.subject)
        held = self._held.get(key)
        if held is None:
            if limit.fraction >= limit.threshold:
                self._held[key] = _Held(limit, now, now)
            return
        held.seen = now
        if not held.told or _differs(held.limit, limit):
            held.limit = limit


def _differs(told: Limit, limit: Limit) -> bool:
    """Whether it is worth telling anew: numbers that tremble are not news."""
    return told.resource != limit.resource or abs(told.fraction - limit.fraction) >= 0.1


def _describe(held: _Held, others: Sequence[_Held]) -> Diagnosis:
    limit = held.limit
    advice = next((each for each in limit.remedies if each.gain is not None), None) or next(iter(limit.remedies), None)
    evidence: Evidence = {
        "resource": limit.resource,
        "fraction": limit.fraction,
        **limit.evidence,
        "remedies": "; ".join(map(str, limit.remedies)) or None,
        "also": ", ".join(other.limit.resource for other in others) or None,
    }
    sentence = f"{limit.sentence}; what would help: {advice}" if advice else limit.sentence
    return Diagnosis("saturation", limit.subject, held.begin, None, limit.severity, sentence, evidence)
