"""Saturation: the resource that limits the cluster while no worker straggles, and remedies.

`limits` judges one moment; `SaturationWatch` reports lasting limits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tfscale.console.analysis.causes.vitals import Vitals, middle
from tfscale.console.analysis.network.uneven_servers import UNEVEN, ServerExchange
from tfscale.console.analysis.run import remedies
from tfscale.console.analysis.run.load import Load
from tfscale.console.analysis.stragglers.straggler_words import names_of
from tfscale.core.cluster.task import CLUSTER, Role, Task
from tfscale.core.records.diagnosis import Diagnosis, Evidence, Remedy
from tfscale.core.text import bit_rate

COMMUNICATION = 0.30
"""Share of the step that the all-reduce takes: with less, even an all-reduce that took no time would gain less than 43
%, and no remedy gains all of it."""
FULL = 0.80
"""Share of a link's speed from which on the link is full: a link shaped to 200 Mbit/s carried 166 to 172
(tests/e2e/causes/test_causes.py), so a share above 0.83 would miss a full link of a busy host."""
INPUT = 0.20
"""Share of the step that workers wait for data [TensorFlow profiler: highly input-bound]."""
COMPUTE = 0.70
"""Share of the step that the GPUs compute: the rest is then too short for another limit."""
GPU_BUSY = 0.90
"""Utilisation of the GPUs from which on they count as at work throughout: NVML counts samples, and misses some work."""
GPU_MEMORY = 0.97
"""Share of the GPUs' memory that is taken: the next larger batch does not fit."""
CPU_BUSY = 0.95
"""Share of all cores in use: a host that is at work is never above it by chance for 10 s."""
HYSTERESIS = 0.9
"""Share of its threshold below which a reported limit ends: at 1 noise would end it, and report it again."""
SETTLE = 10.0
"""Seconds for which a limit must hold before it is reported, and be gone before it ends: counters are medians over
10 s, and a shorter limit needs no remedy."""
_NEWS = 0.1
"""Change of the fraction from which on a limit gets new numbers: smaller changes would rewrite the sentence at each
judgement."""

MANNERS = ("evaluation", "python")
"""Limits that may be the program's purpose: they are told, and the cluster is healthy."""
_OUTSIDE = {
    "compile": ("compile", 0.2, "compiling takes {:.0%} of the time, and goes on: functions are traced anew"),
    "checkpoint": ("checkpoint", 0.1, "writing checkpoints takes {:.0%} of the time"),
    "evaluation": ("evaluation", 0.5, "evaluation takes {:.0%} of the time"),
    "python": ("python", 0.5, "the program's own Python, before and between the steps, takes {:.0%} of the time"),
}
"""Resource, least share of the time, and sentence by bucket of goodput. Checkpoints and compiling are overhead, felt
from a tenth and a fifth on; evaluation and Python may be the program's purpose, and are told from half on."""
BESIDE_STEPS = tuple(resource for resource, _, _ in _OUTSIDE.values())
"""Limits that are work outside of the steps."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A resource, and how near it is to its limit."""

    resource: str
    subject: str
    fraction: float
    """Share of the resource that is in use, 0 to 1."""
    threshold: float
    """Fraction from which on the resource is at its limit."""
    sentence: str
    share: float = 0.0
    """Share of the step time that the resource takes; of several limits the largest is reported."""
    severity: str = "info"
    remedies: tuple[Remedy, ...] = ()
    evidence: Evidence = field(default_factory=dict)
    settle: float = SETTLE
    """Seconds for which the limit must hold before it is reported; 0 if the straggler rule has watched it already."""

    @property
    def is_told(self) -> bool:
        """True where the headline names the limit."""
        return self.severity != "info" or self.resource in BESIDE_STEPS


def limits(
    load: Load | None,
    vitals: Mapping[str, Vitals],
    speeds: Mapping[str, float | None],
    strictness: float = 1.0,
    shares: Mapping[str, float] | None = None,
    servers: ServerExchange | None = None,
) -> list[Limit]:
    """Return every resource at its limit (times `strictness`), the largest share of the step first.

    `vitals` and `speeds`, bits a second of their links, are by task; `load` is None where no step is measured. `shares`
    are those of the time, by bucket of goodput; `servers` have exchanged bytes with the workers.
    """
    hosts = list(vitals.values())
    candidates = [_cpu(hosts), _gpu_memory(hosts)]
    candidates += [_outside(bucket, share) for bucket, share in (shares or {}).items() if bucket in _OUTSIDE]
    workers = sum(Task.parse(name).role is Role.WORKER for name in vitals)
    candidates += [_link(name, host, speeds.get(name), servers, workers) for name, host in vitals.items()]
    if load is not None:
        candidates += [_communication(load), _input(load), _compute(load, hosts)]
    at_limit = [limit for limit in candidates if limit is not None and limit.fraction >= strictness * limit.threshold]
    return sorted(at_limit, key=lambda limit: -limit.share)


def _communication(load: Load) -> Limit | None:
    if load.ranks < 2 or not load.is_whole:
        return None
    share, resource = load.transfer / load.step, "communication"
    sentence = f"communication-bound: {_exchange(load)} takes {share:.0%} of each {_step(load)}"
    evidence: Evidence = {"transfer": load.transfer, "bus_bandwidth": load.bus}
    if load.bus and load.link:
        full = load.bus / load.link
        of = f"{bit_rate(load.bus)} of {bit_rate(load.link)}, {full:.0%}"
        resource = "link" if full >= FULL else resource
        sentence += f", and the link is full ({of})" if full >= FULL else f", though the link is not full ({of})"
        evidence |= {"link": load.link, "link_from": load.link_source, "link_fraction": full}
    helps = remedies.for_communication(load)
    return Limit(
        resource,
        CLUSTER,
        share,
        COMMUNICATION,
        sentence,
        share,
        severity=_severity(share),
        remedies=helps,
        evidence=evidence,
    )


def _exchange(load: Load) -> str:
    """Return the name of the collective that moves most of the bytes."""
    if load.gathered_volume < remedies.MOSTLY:
        return "the all-reduce"
    return "the all-gather of sparse gradients, which grows with every worker," if load.dense else "the all-gather"


def _step(load: Load) -> str:
    if load.local_steps > 1:
        return f"round of {load.local_steps} local steps"
    return f"step of {load.micro_batches} micro-batches" if load.micro_batches > 1 else "step"


def _input(load: Load) -> Limit:
    share = load.input / load.step
    sentence = f"input-bound: {_who_waits(load, f'{share:.0%} of each {_step(load)}')}"
    evidence: Evidence = {"input": load.input, "last": load.late or None, "waiting": load.waiting or None}
    return Limit(
        resource="input",
        subject=CLUSTER,
        fraction=share,
        threshold=INPUT,
        sentence=sentence,
        share=share,
        severity=_severity(share),
        remedies=remedies.for_input(load),
        evidence=evidence,
        settle=0.0 if load.late else SETTLE,
    )


def _who_waits(load: Load, how_long: str) -> str:
    """Return the words for the workers that wait for data, and the ones whose data come last."""
    does, whose, them = ("waits", "its", "it") if len(load.waiting) == 1 else ("wait", "their", "them")
    who = f"{names_of(load.waiting)} {does}" if load.waiting else "every worker waits"
    if not load.late:
        return f"{who} {how_long} for " + (f"{whose} data, the others for {them}" if load.waiting else "its data")
    last = "which" if load.late == load.waiting else f"{names_of(load.late)}'s"
    return f"{who} {how_long} for data, {last} come last (how fast the others' would come is not known)"


def _compute(load: Load, hosts: Sequence[Vitals]) -> Limit | None:
    """Return the limit of the GPUs. Utilisation alone is no evidence: a GPU that waits in an all-reduce is in use."""
    share, use = load.compute / load.step, middle(host.gpu for host in hosts)
    if use is None:
        return None
    sentence = f"GPU-bound, as it should be: the GPUs compute {share:.0%} of each step, {use:.0%} in use"
    fraction = min(share / COMPUTE, use / GPU_BUSY)
    evidence: Evidence = {"gpu": use, "compute": load.compute}
    return Limit(
        "gpu",
        CLUSTER,
        fraction,
        1.0,
        sentence,
        share,
        severity="info",
        remedies=remedies.for_compute(load),
        evidence=evidence,
    )


def _cpu(hosts: Sequence[Vitals]) -> Limit | None:
    use = middle(host.cpu for host in hosts)
    if use is None:
        return None
    has_gpus = any(host.gpu is not None for host in hosts)
    sentence = f"the hosts' CPUs are full ({use:.0%}){', which can keep the GPUs waiting' if has_gpus else ''}"
    severity = "warning" if has_gpus else "info"
    return Limit(
        "cpu",
        CLUSTER,
        use,
        CPU_BUSY,
        sentence,
        0.0,
        severity=severity,
        remedies=remedies.FOR_CPU,
        evidence={"cpu": use},
    )


def _outside(bucket: str, share: float) -> Limit:
    """Return the limit of work outside of the steps; `share` is its share of all time."""
    resource, threshold, sentence = _OUTSIDE[bucket]
    severity = "info" if bucket in MANNERS else _severity(share)
    helps = remedies.OUTSIDE[bucket]
    return Limit(
        resource,
        CLUSTER,
        share,
        threshold,
        sentence.format(share),
        share,
        severity=severity,
        remedies=helps,
        evidence={"share": share},
    )


def _gpu_memory(hosts: Sequence[Vitals]) -> Limit | None:
    use = middle(host.gpu_memory for host in hosts)
    if use is None:
        return None
    sentence = f"{use:.0%} of the GPUs' memory is taken; TensorFlow reserves all of it unless growth is allowed"
    evidence: Evidence = {"gpu_memory": use}
    return Limit(
        "gpu_memory",
        CLUSTER,
        use,
        GPU_MEMORY,
        sentence,
        0.0,
        severity="info",
        remedies=remedies.FOR_GPU_MEMORY,
        evidence=evidence,
    )


def _link(task: str, vitals: Vitals, speed: float | None, servers: ServerExchange | None, workers: int) -> Limit | None:
    """Return the limit of a task's link, whatever uses it: gradients, pulls and pushes, data, other programs."""
    if speed is None or vitals.sent is None or vitals.received is None:
        return None
    moved = [8 * vitals.sent, 8 * vitals.received]
    fraction, does = max(moved) / speed, "sends" if vitals.sent >= vitals.received else "receives"
    sentence = f"the link of {task} is full: it {does} {bit_rate(max(moved))} of {bit_rate(speed)} ({fraction:.0%})"
    is_server = Task.parse(task).role is Role.PS
    excess = None
    if servers is not None and servers.busiest == task and servers.excess >= UNEVEN:
        excess = servers.excess
        sentence += f", and moves {servers.share:.1%} of what workers exchange with {len(servers.moved)} servers"
    evidence: Evidence = {"sent": vitals.sent, "received": vitals.received, "link": speed}
    resource = "server_link" if is_server else "task_link"
    return Limit(
        resource,
        task,
        fraction,
        FULL,
        sentence,
        0.0,
        severity="warning",
        remedies=remedies.for_link(is_server, [each / speed for each in moved], workers, excess),
        evidence=evidence,
    )


def _severity(share: float) -> str:
    return "serious" if share >= 0.6 else "warning" if share >= 0.3 else "info"


@dataclass(slots=True)
class _Held:
    """A limit that holds, or held until a few seconds ago."""

    limit: Limit
    begin: float
    newest: float
    """Newest time at which the limit held, Unix seconds."""
    is_reported: bool = False


@dataclass(slots=True)
class SaturationWatch:
    """Watch of limits: it reports one lasting limit a subject, with the largest share of the step or of the time.

    A limit that the headline names goes before others.
    """

    _held: dict[tuple[str, str], _Held] = field(default_factory=dict)

    def diagnose(
        self,
        load: Load | None,
        vitals: Mapping[str, Vitals],
        speeds: Mapping[str, float | None],
        now: float,
        shares: Mapping[str, float] | None = None,
        servers: ServerExchange | None = None,
    ) -> list[Diagnosis]:
        """Judge the present limits (see `limits`) at `now`, Unix seconds, and return what is open."""
        for limit in limits(load, vitals, speeds, HYSTERESIS, shares, servers):
            self._note(limit, now)
        self._held = {key: held for key, held in self._held.items() if now - held.newest < SETTLE}
        for held in self._held.values():
            held.is_reported = held.is_reported or held.newest - held.begin >= held.limit.settle
        return self.open

    def clear(self) -> None:
        """Forget all limits: beside a straggler the other workers only wait, and no limit can be measured."""
        self._held = {}

    @property
    def open(self) -> list[Diagnosis]:
        """The open diagnosis of each subject."""
        by_subject: dict[str, list[_Held]] = {}
        reported = [held for held in self._held.values() if held.is_reported]
        for held in sorted(reported, key=lambda held: (not held.limit.is_told, -held.limit.share)):
            by_subject.setdefault(held.limit.subject, []).append(held)
        return [_describe(largest, others) for largest, *others in by_subject.values()]

    def _note(self, limit: Limit, now: float) -> None:
        # A link that fills up is the same limit as the communication that fills it.
        key = ("communication" if limit.resource == "link" else limit.resource, limit.subject)
        held = self._held.get(key)
        if held is None:
            if limit.fraction >= limit.threshold:
                self._held[key] = _Held(limit, now, now)
            return
        held.newest = now
        if not held.is_reported or _is_news(held.limit, limit):
            held.limit = limit


def _is_news(reported: Limit, limit: Limit) -> bool:
    if any(reported.evidence.get(name) != limit.evidence.get(name) for name in ("last", "waiting")):
        return True
    return reported.resource != limit.resource or abs(reported.fraction - limit.fraction) >= _NEWS


def _describe(held: _Held, others: Sequence[_Held]) -> Diagnosis:
    limit = held.limit
    with_gain = next((remedy for remedy in limit.remedies if remedy.gain is not None), None)
    first = with_gain or next(iter(limit.remedies), None)
    evidence: Evidence = {
        "resource": limit.resource,
        "fraction": limit.fraction,
        **limit.evidence,
        "also": tuple(other.limit.resource for other in others) or None,
    }
    known = (limit.subject, held.begin, None, limit.severity)
    if first is None:
        return Diagnosis("saturation", *known, limit.sentence, evidence)
    return Diagnosis(
        "saturation",
        *known,
        f"{limit.sentence}; what would help: {first}",
        evidence,
        remedies=(first, *(remedy for remedy in limit.remedies if remedy is not first)),
        statement=limit.sentence,
    )
