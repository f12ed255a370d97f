"""First steps: the first thing to do about a finding whose cause, phase or end decides it.

A first step for every finding of a kind stands in the row of the kind, in `finding_kinds.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tfscale.console.analysis.condition.stillness import Stillness
from tfscale.console.analysis.network.silence import GONE, LEFT, NEVER_HEARD
from tfscale.console.analysis.stragglers.straggler_words import TWO_KINDS, names_of
from tfscale.console.analysis.tasks.blocked import CONTAINER
from tfscale.core.cluster.task import CLUSTER
from tfscale.core.failure.failure_kinds import LAST_WORDS, PEER
from tfscale.core.records.diagnosis import Diagnosis

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
    "quota": "remove files of its user, or have the quota raised; then restart",
    "open_files": "let it have more open files (ulimit -n), or close those that it no longer reads; then restart",
    "open_files_of_host": "raise fs.file-max on its host, or see who holds so many files open; then restart",
    "no_permission": "let the user of its process read and write there; then restart",
    "read_only": "let it write elsewhere, or see why that disk was mounted read-only (dmesg); then restart",
    "missing_file": "see that the file is there on this host, as on the others; then restart",
    "timed_out": "see whether the server answers that it asked; then restart",
    "refused": "start the server that it asks, or correct the address; then restart",
    "connection_lost": "see why the other side closed the connection; then restart",
    "unreachable": "look at the network of its host (ip route, ping); then restart",
    "no_such_host": "see that its host can resolve the name (getent hosts); then restart",
    "foreign_address": "correct its address in the cluster: it is not one of this host",
    "stale_file": "mount the file server's folder anew on its host; then restart",
    "disk_error": "look at the disk of its host (dmesg, smartctl), and restart it elsewhere",
    "too_many_processes": "let it have more processes and threads (ulimit -u, pids.max); then restart",
    "exception": "mend what it says, then restart; the end of its log has the place",
    "last_words": "see whether its last words tell why, else read the end of its log; then restart",
    "no_program": "see that its program is on this host, and in which folder its agent starts it",
    "out_of_step": "give all equally many batches, and let all evaluate, or none of them under the strategy",
    "unreached": "let the others reach its port (firewall, security group; nc shows whether they do); then restart",
    "explained": "write what the sentence says, then restart",
    "gpu": "check its GPU (nvidia-smi -q, dmesg) before it is restarted there",
    "host_memory": "give it more memory, or let it keep less: shuffle buffers, caches, other programs; then restart",
    "network": "look at the network of its host, then restart",
    "stopped": "find out who stops it (ctrl-Z, a debugger, docker pause, the batch system); then restart",
}
_AND_RESTART = re.compile("[;,] then restart(?=$|;)")
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


def about_straggler(straggler: Diagnosis) -> str | None:
    """Return what to look at by the cause of a straggler, else by the phase of its largest loss."""
    evidence = straggler.evidence
    if evidence.get("suspected") == TWO_KINDS and evidence.get("cause") in ("unknown", "device"):
        return "compare their hosts with the others' (nvidia-smi, lscpu); give each worker a batch by its speed"
    if isinstance(reasons := evidence.get("reasons"), tuple):
        return _of_each(straggler.together, reasons)
    return about_one_straggler(straggler)


def about_one_straggler(straggler: Diagnosis) -> str | None:
    """Return what to look at for this straggler alone, also where others share its sentence."""
    evidence = straggler.evidence
    return _by_reason(_text(evidence.get("cause"))) or _by_reason(_text(evidence.get("phase")))


def _of_each(names: Sequence[str], reasons: Sequence[str]) -> str | None:
    """Return the steps for several stragglers, each with the names of those whom it helps."""
    helped: dict[str, list[str]] = {}
    for name, reason in zip(names, reasons, strict=True):
        if step := _by_reason(reason):
            helped.setdefault(step, []).append(name)
    return "; ".join(f"{names_of(each)}: {step}" for step, each in helped.items()) or None


def _by_reason(reason: str) -> str | None:
    """Return what to look at by a cause or a phase."""
    return _BY_CAUSE.get(reason) or _BY_PHASE.get(reason)


def about_pauses(pauses: Diagnosis) -> str | None:
    """Return what to look at while a worker pauses, by the place of its pauses."""
    return _BY_PAUSING_PHASE.get(_text(pauses.evidence.get("phase")))


def about_slowdown(slowdown: Diagnosis) -> str | None:
    """Return what explains slower steps of all workers; None where the program does other work than before."""
    if slowdown.severity == "info":
        return None
    if slowdown.evidence.get("changed"):
        return "see which of the changes explains it: undo them one by one"
    return _BY_SLOWER_PART.get(_text(slowdown.evidence.get("part")))


def about_imbalance(imbalance: Diagnosis) -> str | None:
    """Return what makes the uneven phase even; where one subject has most of the work, what to look at there."""
    if "mostly" in imbalance.evidence:
        return _BY_PHASE.get(_text(imbalance.evidence.get("phase")))
    return _BY_UNEVEN_PHASE.get(_text(imbalance.evidence.get("phase")))


def about_limit(limit: Diagnosis) -> str | None:
    """Return the remedies of a limit except the first, which its sentence contains."""
    return "; or ".join(map(str, limit.remedies[1:])) or None


def about_not_finite(lost: Diagnosis) -> str:
    """Return what to do about a loss that is not finite: look at the batch where a single worker had it first."""
    if lost.evidence.get("whose") == "one":
        return f"look at the batch that {lost.subject} had in this step; restart from a checkpoint before"
    return "lower the learning rate or clip gradients; restart from a checkpoint before"


def about_blocked(blocked: Diagnosis) -> str:
    """Return what frees a process's blocked threads: its container, or the disk that does not answer."""
    if blocked.evidence.get("place") == CONTAINER:
        return "let its container go on (docker unpause, its cgroup's freezer): others give it up in some 10 s"
    return "see whether its disks and file servers answer (dmesg, ls); such a process cannot be killed"


def about_unreachable(unreachable: Diagnosis) -> str:
    """Return how the console gets an agent back, by the other agents' reports about it."""
    match unreachable.evidence.get("agent"):
        case agent if agent == NEVER_HEARD:
            return "start the agent on its host: the others wait for its task"
        case agent if agent in (GONE, LEFT):
            return f"start the agent of {unreachable.subject} again: it takes up its task, which goes on without it"
    return "look at the way from here to its host: the training goes on"


def about_hang(hang: Diagnosis) -> str | None:
    """Return what to do about the late task, by its process's doing."""
    return _about_stillness(hang.kind, hang.subject, _text(hang.evidence.get("doing")))


def still_advice(still: Stillness) -> str | None:
    """Return the first thing to do about a stillness too short to be an event."""
    if still.is_expected or still.is_ending:
        return None
    subject, does = next(((name, each.kind) for name, each in still.late.items()), (CLUSTER, ""))
    return _about_stillness("still", subject, does)


def _about_stillness(kind: str, subject: str, does: str) -> str | None:
    """Return what to do about a late task, by its process's doing."""
    if does in _BY_DOING:
        return _BY_DOING[does]
    if does in _NO_TROUBLE:
        return None
    if subject == CLUSTER:
        return "b on the page of a task shows where its Python is"
    stack = f"b on the page of {subject} shows where its Python is"
    return f"{stack}; then restart it (r)" if kind == "hang" else stack


def about_crash(crash: Diagnosis) -> str:
    """Return what to do about a crash; a restart only where agents have announced none."""
    advice = _before_restart(crash)
    return _AND_RESTART.sub("", advice) if "restart_at" in crash.evidence else advice


def _before_restart(crash: Diagnosis) -> str:
    """Return what to do before a restart, by the reason of a crash, else by the process's end."""
    reason = crash.evidence.get("reason")
    if crash.evidence.get("signal") == "SIGKILL" and reason in (None, LAST_WORDS):
        return "see in its host's dmesg whether it was out of memory; then restart"
    if isinstance(reason, str) and reason in _BY_END:
        return _BY_END[reason]
    if reason == PEER and crash.evidence.get("code") is None and crash.evidence.get("signal") is None:
        return f"see whether the host of {crash.subject} answers (ping, ssh); then restart"
    return "read the end of its log; then restart"


def _text(value: float | str | tuple[str, ...] | None) -> str:
    return value if isinstance(value, str) else ""
