"""Remedies: the first step for each finding, and changes of the cluster with the gain that a model predicts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tfscale.console.analysis.condition.stillness import Stillness
from tfscale.console.analysis.network.silence import GONE, LEFT, NEVER_HEARD
from tfscale.console.analysis.process.process_facts import CONTAINER
from tfscale.console.analysis.run import gain_models
from tfscale.console.analysis.run.load import Load
from tfscale.console.analysis.run.scaling import volume
from tfscale.console.analysis.run.technique_words import NARROW
from tfscale.console.analysis.stragglers.straggler_words import TWO_KINDS
from tfscale.core.cluster.task import CLUSTER
from tfscale.core.log_clues import PEER
from tfscale.core.records.diagnosis import Diagnosis

SMALL = 64_000
"""Bytes up to which an all-reduce takes the time of its messages, and not of its bytes (chosen: at 1 Gbit/s they take
half a millisecond)."""
MOSTLY = 0.5
"""Share of the volume from which on an exchange is told as an all-gather (chosen: the half of it)."""


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
    """Return four times the steps, or micro-batches, for each all-reduce: more of what the program does already."""
    gain = gain_models.accumulated(load.step, load.transfer, 4)
    if (steps := load.local_steps) > 1:
        return Remedy(f"an all-reduce in {4 * steps} local steps, not {steps}", gain, "a quarter of the all-reduces")
    instead = f" instead of {load.micro_batches}" if load.micro_batches > 1 else ""
    what = f"accumulating {4 * load.micro_batches} micro-batches of this size{instead}"
    return Remedy(what, gain, "a quarter of the all-reduces")


def enlarge_batch(load: Load) -> Remedy:
    growing = min(load.compute + load.input, load.step - load.transfer)
    if not load.dense:
        gain = gain_models.larger_batch(load.step, growing, 2)
        return Remedy("a batch twice as large", gain, "compute and input double")
    # Twice the examples use up to twice the rows of an embedding.
    rows = load.transfer * load.gathered_volume
    gain = gain_models.larger_batch(load.step, growing + rows, 2)
    return Remedy("a batch twice as large", gain, "compute, input and the rows that are gathered double")


def densify(load: Load) -> Remedy | None:
    """Return dense gradients in the place of sparse ones, where a ring moves fewer bytes of them; else None."""
    if load.payload is None or not load.dense:
        return None
    now = volume(load.payload, load.ranks, load.gathered)
    then = volume(load.payload * (1 - load.gathered) + load.dense, load.ranks)
    if then >= now:
        return None
    gain = gain_models.other_volume(load.step, load.transfer, now, then)
    what = "sparse gradients made dense (tf.convert_to_tensor) before they are reduced"
    return Remedy(what, gain, "an all-reduce instead of an all-gather", at_most=True)


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
    gain = gain_models.more_workers(load.step, load.transfer, load.ranks, 2 * load.ranks, load.gathered)
    model = "ring all-reduce" if load.gathered_volume < MOSTLY else "all-gather, which grows with every worker"
    return Remedy(f"{2 * load.ranks} workers instead of {load.ranks}", gain, model, at_most=True)


def for_communication(load: Load) -> tuple[Remedy, ...]:
    """Return what helps where the all-reduce takes much of each step."""
    links = () if _is_small(load) else (faster_links(load),)
    return (*_for_fewer_bytes(load), enlarge_batch(load), *links, *_without_gain(load))


def _is_small(load: Load) -> bool:
    """Decide whether so few bytes are exchanged that fewer of them, or faster links, save nothing."""
    return load.payload is not None and load.payload <= SMALL


def _for_fewer_bytes(load: Load) -> Iterator[Remedy]:
    """Yield what lessens the bytes on the wire, but for what the program does already."""
    if (dense := densify(load)) is not None:
        yield dense
    if load.wire_type not in NARROW and load.local_steps == 1 and not _is_small(load):
        yield cast_gradients(load)
    # Micro-batches add up dense gradients: those of an embedding would no longer be sparse.
    if not load.dense:
        yield accumulate(load)


def _without_gain(load: Load) -> Iterator[Remedy]:
    if load.dense:
        yield Remedy("embeddings on parameter servers, to which a worker sends the rows that it used")
    elif load.gathered_volume >= MOSTLY:
        yield Remedy("fewer entries to gather: beyond a few workers an all-reduce moves less")
    yield Remedy("fewer, stronger GPUs")


def for_input(load: Load) -> tuple[Remedy, ...]:
    """Return what helps where workers wait for their data."""
    return prefetch(load), Remedy("decoding the data once and caching it")


def for_compute(load: Load) -> tuple[Remedy, ...]:
    """Return what helps where the GPUs compute most of the time."""
    return more_workers(load), faster_devices(load, "GPUs"), Remedy("mixed precision")


FOR_CPU = (Remedy("more cores a host, fewer tasks on one host, or less preprocessing in the training process"),)
OUTSIDE = {
    "compile": (
        Remedy("tensors instead of Python numbers as arguments of tf.function, or reduce_retracing=True"),
        Remedy("batches of one shape (drop_remainder=True)"),
    ),
    "checkpoint": (Remedy("checkpoints less often, or written in the background (CheckpointOptions)"),),
    "evaluation": (Remedy("evaluation less often, or by an evaluator beside the training"),),
    "python": (
        Remedy("larger batches, or several steps in one call (steps_per_execution)"),
        Remedy("b on a task's page shows where its Python is"),
    ),
}
"""Remedies of what takes time outside of the steps, by bucket of goodput."""
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
    links = () if _is_small(load) else (faster_links(load),)
    yield from (*_for_fewer_bytes(load), *links, enlarge_batch(load), more_workers(load))


def for_stragglers(names: Sequence[str], slowdown: float) -> Remedy:
    """Return the repair of these stragglers, which costs the cluster `slowdown` (a factor) now."""
    which = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return Remedy(f"{which} as fast as the others", slowdown, "as long in a step as the median of the others")


_BY_CAUSE: Mapping[str, str] = {
    "input": "prefetch and map in parallel, and look at the storage that it reads from",
    "host": "do less in its callbacks and logging, and load data with tf.data; its Python stack shows what it does",
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
    "exception": "mend what it says, then restart; the end of its log has the place",
    "no_program": "see that its program is on this host, and in which folder its agent starts it",
    "out_of_step": "give all equally many batches, and let all evaluate, or none of them under the strategy",
    "unreached": "let the others reach its port (firewall, security group; nc shows whether they do); then restart",
    "explained": "write what the sentence says, then restart",
    "gpu": "check its GPU (nvidia-smi -q, dmesg) before it is restarted there",
    "host_memory": "give it more memory, or let it keep less: shuffle buffers, caches, other programs; then restart",
    "network": "look at the network of its host, then restart",
    "stopped": "find out who stops it (ctrl-Z, a debugger, docker pause, the batch system); then restart",
}
_BY_DOING: Mapping[str, str] = {
    "stopped": "let it go on (kill -CONT and its pid, on its host), or restart it (r)",
    "silent": "see whether its host runs, and the network to it; the training may go on without an agent",
    "ended": "restart it (r), and all that must restart with it",
}
_NO_TROUBLE = ("starting", "compile", "checkpoint")
_BY_SLOWER_PART: Mapping[str, str] = {
    "input": "look at the storage that all read from",
    "host": "look at what was added between the steps: callbacks, logging, loading of data without tf.data",
    "transfer": "look at the links between the hosts, and at who else uses them",
    "compute": "look at clocks and heat of its hosts, at who else uses them, and at the program: lengths, epoch",
    "update": "look at what changed in the program: optimizer, variables",
}
_BY_UNEVEN_PHASE: Mapping[str, str] = {
    "input": "prefetch more, so that a late batch costs nobody anything",
    "compute": "batches of equal size: bucket by length, shuffle before sharding",
    "host": "less in the callbacks, or at the same steps on all workers",
}

_BY_PAUSING_PHASE: Mapping[str, str] = {
    "host": "look for what its Python does then (gc, a callback that writes, a lock): b shows it while it lasts",
    "input": "look at what it reads then: a shuffle buffer that fills, the next file, its disk",
    "compute": "look for functions that are traced anew, and at its GPU's clock and heat",
    "checkpoint": "save less often, or in the background",
    "evaluation": "let all workers evaluate, or an evaluator beside them",
}


def first_step(diagnosis: Diagnosis) -> str | None:
    """Return the first thing to do about a finding; None where its sentence holds it already."""
    evidence = diagnosis.evidence
    match diagnosis.kind:
        case "straggler" if evidence.get("suspected") == TWO_KINDS and evidence.get("cause") in ("unknown", "device"):
            return "compare their hosts with the others' (nvidia-smi, lscpu); give each worker a batch by its speed"
        case "straggler":
            return _BY_CAUSE.get(_text(evidence.get("cause"))) or _BY_PHASE.get(_text(evidence.get("phase")))
        case "crash":
            return _after_crash(diagnosis)
        case "hang" | "still":
            return _about_stillness(diagnosis.kind, diagnosis.subject, _text(evidence.get("doing")))
        case "not_started":
            return "start it, or read its log: all others wait for it"
        case "not_finite" if evidence.get("whose") == "one":
            return f"look at the batch that {diagnosis.subject} had in this step; restart from a checkpoint before"
        case "not_finite":
            return "lower the learning rate or clip gradients; restart from a checkpoint before"
        case "empty_batches":
            return "give every worker equally many batches, or let its data repeat"
        case "cut_off":
            return (
                "see whether its host is up, then look at its network (cable, port, firewall); restart what has ended"
            )
        case "blocked" if evidence.get("place") == CONTAINER:
            return "let its container go on (docker unpause, its cgroup's freezer): others give it up in some 10 s"
        case "blocked":
            return "see whether its disks and file servers answer (dmesg, ls); such a process cannot be killed"
        case "unreachable" if evidence.get("agent") == NEVER_HEARD:
            return "start the agent on its host: the others wait for its task"
        case "unreachable" if evidence.get("agent") in (GONE, LEFT):
            return f"start the agent of {diagnosis.subject} again: it takes up its task, which goes on without it"
        case "unreachable":
            return "look at the way from here to its host: the training goes on"
        case "slow_link":
            return "look at the cable, port and settings (ethtool) of both hosts, and at who else uses that way"
        case "pauses":
            return _BY_PAUSING_PHASE.get(_text(evidence.get("phase")))
        case "slowdown" if diagnosis.severity == "info":
            return None
        case "slowdown" if evidence.get("changed"):
            return "see which of the changes explains it: undo them one by one"
        case "slowdown":
            return _BY_SLOWER_PART.get(_text(evidence.get("part")))
        case "imbalance":
            return _BY_UNEVEN_PHASE.get(_text(evidence.get("phase")))
        case "saturation":
            # The first remedy is in the sentence.
            rest = _text(evidence.get("remedies")).split("; ")[1:]
            return f"or {'; '.join(rest)}" if rest else None
    return None


def still_advice(still: Stillness) -> str | None:
    """Return the first thing to do about a stillness that is no event yet."""
    if still.is_expected:
        return None
    subject, does = next(((name, each.kind) for name, each in still.late.items()), (CLUSTER, ""))
    return _about_stillness("still", subject, does)


def _about_stillness(kind: str, subject: str, does: str) -> str | None:
    """Return what to do about a task that keeps the others waiting, by what its process does."""
    if does in _BY_DOING:
        return _BY_DOING[does]
    if does in _NO_TROUBLE:
        return None
    if subject == CLUSTER:
        return "b on the page of a task shows where its Python is"
    stack = f"b on the page of {subject} shows where its Python is"
    return f"{stack}; then restart it (r)" if kind == "hang" else stack


def _after_crash(crash: Diagnosis) -> str:
    reason = crash.evidence.get("reason")
    if isinstance(reason, str) and reason in _BY_END:
        return _BY_END[reason]
    if reason == PEER and crash.evidence.get("code") is None and crash.evidence.get("signal") is None:
        return f"see whether the host of {crash.subject} answers (ping, ssh); then restart"
    if crash.evidence.get("signal") == "SIGKILL" and reason is None:
        return "see in its host's dmesg whether it was out of memory; then restart"
    return "read the end of its log; then restart"


def _text(value: float | str | None) -> str:
    return value if isinstance(value, str) else ""
