"""Remedies: the first step for each finding, and changes of the cluster with the gain that a model predicts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tfscale.core.analysis.run import gain_models
from tfscale.core.analysis.run.load import Load
from tfscale.core.cluster.task import CLUSTER
from tfscale.core.records import Diagnosis


@dataclass(frozen=True, slots=True)
class Remedy:
    """A change of the program or the cluster, with the gain that a model predicts."""

    what: str
    gain: float | None = None
    """Factor of throughput; None where no model predicts it."""
    model: str = ""
    """The assumption of the model, in words."""
    at_most: bool = False
    """True where the model leaves out what can only lessen the gain."""

    def __str__(self) -> str:
        if self.gain is None:
            return self.what
        most = "at most " if self.at_most else ""
        return f"{self.what} ({most}+{self.gain - 1:.0%} throughput)"


def cast_gradients(load: Load) -> Remedy:
    gain = gain_models.half_the_bytes(load.step, load.transfer)
    return Remedy("gradients cast to bfloat16 for the wire", gain, "half the bytes", at_most=True)


def accumulate(load: Load) -> Remedy:
    gain = gain_models.accumulated(load.step, load.transfer, 4)
    return Remedy("accumulating 4 micro-batches", gain, "a quarter of the all-reduces")


def enlarge_batch(load: Load) -> Remedy:
    growing = min(load.compute + load.input, load.step - load.transfer)
    return Remedy("a batch twice as large", gain_models.larger_batch(load.step, growing, 2), "compute and input double")


def faster_links(load: Load) -> Remedy:
    gain = gain_models.faster_link(load.step, load.transfer, 2)
    return Remedy("links twice as fast", gain, "half the transfer", at_most=True)


def prefetch(load: Load) -> Remedy:
    gain = gain_models.prefetched(load.step, load.input)
    return Remedy("prefetching and parallel maps", gain, "input beside training", at_most=True)


def faster_devices(load: Load, devices: str) -> Remedy:
    gain = gain_models.half_the_compute(load.step, load.compute)
    return Remedy(f"{devices} twice as fast", gain, "half the compute", at_most=True)


def more_workers(load: Load) -> Remedy:
    gain = gain_models.more_workers(load.step, load.transfer, load.ranks, 2 * load.ranks)
    return Remedy(f"{2 * load.ranks} workers instead of {load.ranks}", gain, "ring all-reduce", at_most=True)


def for_communication(load: Load) -> tuple[Remedy, ...]:
    """Return what helps where the all-reduce takes much of each step."""
    first = (cast_gradients(load), accumulate(load), enlarge_batch(load), faster_links(load))
    return (*first, Remedy("fewer, stronger GPUs"))


def for_input(load: Load) -> tuple[Remedy, ...]:
    """Return what helps where workers wait for their data."""
    return prefetch(load), Remedy("decoding the data once and caching it")


def for_compute(load: Load) -> tuple[Remedy, ...]:
    """Return what helps where the GPUs compute most of the time."""
    return more_workers(load), faster_devices(load, "GPUs"), Remedy("mixed precision")


FOR_CPU = (Remedy("more cores a host, fewer tasks on one host, or less preprocessing in the training process"),)
FOR_GPU_MEMORY = (Remedy("a smaller batch on each GPU with gradient accumulation, or mixed precision"),)


def for_link(is_server: bool) -> tuple[Remedy, ...]:
    """Return what helps where the link of one task is full."""
    return Remedy("more parameter servers" if is_server else "a faster link"), Remedy("gradients cast to bfloat16")


def for_cluster(load: Load) -> Iterator[Remedy]:
    """Yield every change of the cluster or the program whose gain a model predicts, at a limit or not."""
    yield faster_devices(load, "devices")
    if load.input > 0:
        yield prefetch(load)
    if load.ranks < 2 or load.transfer <= 0:
        return
    yield from (cast_gradients(load), faster_links(load), accumulate(load), enlarge_batch(load), more_workers(load))


def for_stragglers(names: Sequence[str], slowdown: float) -> Remedy:
    """Return the repair of these stragglers, which costs the cluster `slowdown` (a factor) now."""
    which = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return Remedy(f"{which} as fast as the others", slowdown, "as long in a step as the median of the others")


_BY_CAUSE: Mapping[str, str] = {
    "input": "prefetch and map in parallel, and look at the storage that it reads from",
    "host": "do less in its callbacks and logging; its Python stack shows in which",
    "thermal": "mend the cooling of its host, or restart it on another one",
    "power": "check its host's power supply and its GPU's power limit",
    "cpu": "end the other programs on its host, or give it more cores",
    "memory": "free memory on its host: smaller shuffle buffers, fewer programs",
    "uneven": "give every worker an equal share of the examples",
    "device": "check its GPU (nvidia-smi -q, dmesg), or restart it on another host",
}
_BY_PHASE: Mapping[str, str] = {
    "compute": "take a profile to see which ops are slow; see what else its host does",
    "update": "take a profile: the update of the variables should cost all the same",
    "host": _BY_CAUSE["host"],
    "input": _BY_CAUSE["input"],
}
_BY_END: Mapping[str, str] = {
    "out_of_memory": "take a smaller batch, or mixed precision; then restart",
    "not_a_number": "lower the learning rate or clip gradients; restart from a checkpoint before",
    "address_in_use": "end the program that has its port, or give it another; then restart",
    "disk_full": "make room on its disk; then restart",
    "explained": "write what the sentence says, then restart",
    "gpu": "check its GPU (nvidia-smi -q, dmesg) before it is restarted there",
}
_BY_SLOWER_PART: Mapping[str, str] = {
    "input": "look at the storage that all read from",
    "host": "look at what was added between the steps: callbacks, logging",
    "transfer": "look at the links between the hosts, and at who else uses them",
    "compute": "look at what changed in the program: batch, lengths, epoch",
    "update": "look at what changed in the program: optimizer, variables",
}
_BY_UNEVEN_PHASE: Mapping[str, str] = {
    "input": "prefetch more, so that a late batch costs nobody anything",
    "compute": "batches of equal size: bucket by length, shuffle before sharding",
    "host": "less in the callbacks, or at the same steps on all workers",
}


def first_step(diagnosis: Diagnosis) -> str | None:
    """Return the first thing to do about a finding; None where its sentence holds it already."""
    evidence = diagnosis.evidence
    match diagnosis.kind:
        case "straggler":
            return _BY_CAUSE.get(_text(evidence.get("cause"))) or _BY_PHASE.get(_text(evidence.get("phase")))
        case "crash":
            return _after_crash(diagnosis)
        case "hang":
            return None if diagnosis.subject == CLUSTER else "read its Python stack, then restart it"
        case "not_started":
            return "start it, or read its log: all others wait for it"
        case "not_finite":
            return "lower the learning rate or clip gradients; restart from a checkpoint before"
        case "slowdown":
            return _BY_SLOWER_PART.get(_text(evidence.get("part")))
        case "imbalance":
            return _BY_UNEVEN_PHASE.get(_text(evidence.get("phase")))
        case "saturation":
            # The first remedy is in the sentence.
            rest = _text(evidence.get("remedies")).split("; ")[1:]
            return f"or {'; '.join(rest)}" if rest else None
    return None


def _after_crash(crash: Diagnosis) -> str:
    reason = crash.evidence.get("reason")
    if isinstance(reason, str) and reason in _BY_END:
        return _BY_END[reason]
    if crash.evidence.get("signal") == "SIGKILL" and reason is None:
        return "see in its host's dmesg whether it was out of memory; then restart"
    return "read the end of its log; then restart"


def _text(value: float | str | None) -> str:
    return value if isinstance(value, str) else ""
