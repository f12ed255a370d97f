"""The names of tasks and subjects, in TensorFlow's terms."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from tfscale.core.errors import UsageError
from tfscale.core.text_enum import TextEnum

CLUSTER = "cluster"
"""Subject of a diagnosis that concerns no single task."""


class Role(TextEnum):
    """Task type of `TF_CONFIG` or of the tf.data service, in the order of all tables."""

    CHIEF = "chief"
    WORKER = "worker"
    PS = "ps"
    EVALUATOR = "evaluator"
    DISPATCHER = "dispatcher"
    DATAWORKER = "dataworker"


DATA_SERVICE = frozenset({Role.DISPATCHER, Role.DATAWORKER})
"""Roles of the tf.data service, which make the batches of a training. TensorFlow's strategies refuse a TF_CONFIG that
names another role than chief, worker, ps and evaluator."""


_ORDER = {role: position for position, role in enumerate(Role)}
MASTER = "master"
"""Name that AI Platform and other platforms give the chief."""
_ALIASES = {MASTER: Role.CHIEF}
_MOST_SHOWN = 40
"""Characters of a wrong name in an error: names come from other hosts, too."""


@dataclass(frozen=True, slots=True)
class Task:
    """One TensorFlow task; `str(task)` is its name everywhere: `worker:1`."""

    role: Role
    index: int

    def __str__(self) -> str:
        return f"{self.role}:{self.index}"

    def __hash__(self) -> int:
        # An enum's own hash takes longer than all else of looking up a task, which a console does all the time.
        return self.index

    def __lt__(self, other: Task) -> bool:
        return (_ORDER[self.role], self.index) < (_ORDER[other.role], other.index)

    @classmethod
    def parse(cls, name: str) -> Task:
        """Return the Task of a name such as `worker:1`. Raises UsageError for anything else."""
        match = re.fullmatch(r"([a-z]{1,20}):([0-9]{1,9})", name)
        if match is None:
            shown = name if len(name) <= _MOST_SHOWN else f"{name[:_MOST_SHOWN]}..."
            raise UsageError(f"{shown!r} is not a task: write role:index, for example worker:1")
        return cls(parse_role(match[1]), int(match[2]))


def parse_role(name: str) -> Role:
    """Return the Role of a task type; `master` is the chief. Raises UsageError for an unknown one."""
    if name in _ALIASES:
        return _ALIASES[name]
    try:
        return Role(name)
    except ValueError:
        raise UsageError(f"unknown role {name!r}: use one of {', '.join(Role)}") from None


@lru_cache(maxsize=16_384)
def subject_task(subject: str) -> Task | None:
    """Return the task of a subject (`worker:1`, `worker:1/replica:0`, `cluster`), None for the cluster."""
    return None if subject == CLUSTER else Task.parse(subject.partition("/")[0])


@lru_cache(maxsize=16_384)
def subject_owner(subject: str) -> str:
    """Return the name of the task of a subject."""
    return str(subject_task(subject))


def subject_order(subject: str) -> tuple[Task | None, str]:
    """Return the key that sorts subjects other than the cluster: by task, then by replica."""
    return subject_task(subject), subject
