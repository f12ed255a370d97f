"""What to do about a finding, in one line: the first thing that people of the field would try. No numpy."""

from __future__ import annotations

from collections.abc import Mapping

from tfscale.core.records import Diagnosis
from tfscale.core.task import CLUSTER

_OF_CAUSES: Mapping[str, str] = {
    "input": "prefetch and map in parallel, and look at the storage that it reads from",
    "host": "do less in its callbacks and logging; its Python stack shows in which",
    "thermal": "mend the cooling of its host, or restart it on another one",
    "power": "check its host's power supply and its GPU's power limit",
    "cpu": "end the other programs on its host, or give it more cores",
    "memory": "free memory on its host: smaller shuffle buffers, fewer programs",
    "uneven": "give every worker an equal share of the examples",
    "device": "check its GPU (nvidia-smi -q, dmesg), or restart it on another host",
}
_OF_PHASES: Mapping[str, str] = {
    "compute": "take a profile to see which ops are slow; see what else its host does",
    "update": "take a profile: the update of the variables should cost all the same",
    "host": _OF_CAUSES["host"],
    "input": _OF_CAUSES["input"],
}
_OF_ENDS: Mapping[str, str] = {
    "out_of_memory": "take a smaller batch, or mixed precision; then restart",
    "not_a_number": "lower the learning rate or clip gradients; restart from a checkpoint before",
    "address_in_use": "end the program that has its port, or give it another; then restart",
    "disk_full": "make room on its disk; then restart",
    "gpu": "check its GPU (nvidia-smi -q, dmesg) before it is restarted there",
}
_OF_PARTS: Mapping[str, str] = {
    "input": "look at the storage that all read from",
    "host": "look at what was added between the steps: callbacks, logging",
    "transfer": "look at the links between the hosts, and at who else uses them",
    "compute": "look at what changed in the program: batch, lengths, epoch",
    "update": "look at what changed in the program: optimizer, variables",
}
_IMBALANCE: Mapping[str, str] = {
    "input": "prefetch more, so that a late batch costs nobody anything",
    "compute": "batches of equal size: bucket by length, shuffle before sharding",
    "host": "less in the callbacks, or at the same steps on all workers",
}


def repair(diagnosis: Diagnosis) -> str | None:
    """The first thing to do; None where there is nothing better than what the sentence says."""
    evidence = diagnosis.evidence
    match diagnosis.kind:
        case "straggler":
            return _OF_CAUSES.get(_word(evidence.get("cause"))) or _OF_PHASES.get(_word(evidence.get("phase")))
        case "crash":
            return _of_crash(diagnosis)
        case "hang":
            return None if diagnosis.subject == CLUSTER else "read its Python stack, then restart it"
        case "not_started":
            return "start it, or read its log: all others wait for it"
        case "not_finite":
            return "lower the learning rate or clip gradients; restart from a checkpoint before"
        case "slowdown":
            return _OF_PARTS.get(_word(evidence.get("part")))
        case "imbalance":
            return _IMBALANCE.get(_word(evidence.get("phase")))
        case "saturation":
            # The first remedy is in the sentence.
            rest = _word(evidence.get("remedies")).split("; ")[1:]
            return f"or {'; '.join(rest)}" if rest else None
    return None


def _of_crash(crash: Diagnosis) -> str:
    reason = crash.evidence.get("reason")
    if isinstance(reason, str) and reason in _OF_ENDS:
        return _OF_ENDS[reason]
    if crash.evidence.get("signal") == "SIGKILL" and reason is None:
        return "see in its host's dmesg whether it was out of memory; then restart"
    return "read the end of its log; then restart"


def _word(value: float | str | None) -> str:
    return value if isinstance(value, str) else ""
