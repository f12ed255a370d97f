"""Roles of tasks that a launcher numbers: workers, but for those that --chief, --ps and --evaluator ask for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tfscale.core.cluster.task import Role, Task
from tfscale.core.errors import UsageError

FLAGS = ("chief", "ps", "evaluator")
"""Options that give tasks another role."""


def numbered_tasks(count: int, chosen: Mapping[str, Any]) -> list[Task]:
    """Return the task of each rank: the chief is the first, servers are the last, after them only the evaluator.

    Raises UsageError where no task is left that trains.
    """
    chief, servers, evaluator = (
        int(chosen.get("chief", False)),
        chosen.get("ps", 0),
        int(chosen.get("evaluator", False)),
    )
    workers = count - chief - servers - evaluator
    if workers < 0 or workers + chief < 1:
        asked = [f"--{name}" for name in FLAGS if chosen.get(name)]
        raise UsageError(f"{' and '.join(asked)}: the launcher has started {count} tasks, and none is left that trains")
    numbers = {Role.CHIEF: chief, Role.WORKER: workers, Role.PS: servers, Role.EVALUATOR: evaluator}
    return [Task(role, index) for role, number in numbers.items() for index in range(number)]
