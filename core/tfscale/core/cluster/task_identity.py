"""Names of a request's recipient: run, task, and fingerprint of the cluster.

An address alone may be that of a stranger: a host that stands in two cluster files, or an agent that was started with
another file than its lead. Each agent compares the names of a request with its own, and refuses a mismatch.
"""

from __future__ import annotations

from dataclasses import dataclass

from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.cluster.task import Task

_MOST_SHOWN = 60
"""Characters of a name in an error, which may come from another host and be long."""


@dataclass(frozen=True, slots=True)
class TaskIdentity:
    """Names of one agent's task. An empty name in a request means that the caller does not know it."""

    run: str = ""
    task: str = ""
    fingerprint: str = ""

    def __str__(self) -> str:
        task, run, fingerprint = map(_shown, (self.task, self.run, self.fingerprint))
        words = (task or "a task", run and f"of run {run}", fingerprint and f"(cluster {fingerprint})")
        return " ".join(filter(None, words))

    def why_not(self, asked: TaskIdentity) -> str | None:
        """Return why a request for `asked` is not meant for this task, with both names; None if it may be."""
        named = {name: getattr(asked, name) for name in _REMEDIES}
        wrong = next((name for name, value in named.items() if value and value != getattr(self, name)), None)
        return None if wrong is None else f"this is {self}, and the request is for {asked}: {_REMEDIES[wrong]}"


_REMEDIES = {
    "fingerprint": "give both the same [cluster], or correct [agents]",
    "task": "correct [agents] in the cluster file",
    "run": "give both the same --run, or correct [agents]",
}
"""Remedy of a wrong name; the first name that differs decides."""


def identity_of(spec: ClusterSpec, run: str, task: Task) -> TaskIdentity:
    return TaskIdentity(run, str(task), spec.fingerprint)


def _shown(name: str) -> str:
    cut = name if len(name) <= _MOST_SHOWN else f"{name[:_MOST_SHOWN]}..."
    return cut if cut.isprintable() else ascii(cut)
