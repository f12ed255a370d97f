"""Shares of a host's GPUs, for several tasks that one agent or one console starts on the host."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from tfscale.core.cluster.task import Role, Task
from tfscale.core.errors import UsageError
from tfscale.core.text import plural

VISIBLE_GPUS = "CUDA_VISIBLE_DEVICES"
_COMPUTING = frozenset({Role.CHIEF, Role.WORKER, Role.EVALUATOR})
"""Roles whose tasks compute on a GPU; servers and the tf.data service use no GPU."""


def chosen_gpus(environment: Mapping[str, str]) -> tuple[str, ...] | None:
    """Return the GPUs in CUDA_VISIBLE_DEVICES; None without the variable, which leaves the choice to CUDA.

    Like CUDA, stops at the first entry that is empty or -1.
    """
    if (text := environment.get(VISIBLE_GPUS)) is None:
        return None
    names = [name.strip() for name in text.split(",")]
    end = next((place for place, name in enumerate(names) if name in ("", "-1")), len(names))
    return tuple(names[:end])


def divided(gpus: Sequence[str], parts: int) -> list[tuple[str, ...]]:
    """Return the GPUs in `parts` parts, in their order; the sizes of two parts differ by at most one."""
    cuts = [len(gpus) * part // parts for part in range(parts + 1)]
    return [tuple(gpus[begin:end]) for begin, end in itertools.pairwise(cuts)]


def check_gpus(gpus: Sequence[str], tasks: Sequence[Task]) -> None:
    """Raise UsageError if the host has GPUs, but fewer than tasks."""
    computing = _computing(tasks)
    if gpus and len(gpus) < len(computing):
        raise UsageError(
            f"{len(computing)} tasks of this host compute ({', '.join(map(str, computing))}), and it has "
            f"{plural(len(gpus), 'GPU')}: TensorFlow takes all memory of a GPU, which no agent can limit; start an "
            f"agent for each task (--task) if the program does, or all without a GPU: {VISIBLE_GPUS}= tfscale-agent ..."
        )


def share_of(task: Task, gpus: Sequence[str], tasks: Sequence[Task]) -> tuple[str, ...]:
    """Return the GPUs of one of these tasks of a host.

    After a restart that has moved tasks here, more tasks may compute than there are GPUs: then some share a GPU.
    """
    computing = _computing(tasks)
    if task not in computing or not gpus:
        return ()
    place = computing.index(task)
    if len(gpus) < len(computing):
        return (gpus[place % len(gpus)],)
    return divided(gpus, len(computing))[place]


def _computing(tasks: Sequence[Task]) -> list[Task]:
    return sorted(task for task in tasks if task.role in _COMPUTING)
