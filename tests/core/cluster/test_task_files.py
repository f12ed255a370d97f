"""Files of a task in its run's folder."""

from __future__ import annotations

from pathlib import Path

from tfscale.core.cluster.task import Role, Task
from tfscale.core.cluster.task_files import TaskFiles


def test_tasks_of_one_folder_share_no_file() -> None:
    first, second = (TaskFiles(Path("/run"), Task(Role.WORKER, index)) for index in range(2))
    names = [name for name, value in vars(TaskFiles).items() if isinstance(value, property) and name != "stem"]
    files = [getattr(task, name) for task in (first, second) for name in names]
    assert len(set(files)) == len(files) == 14
    assert first.log == Path("/run/worker-0.log")
    assert first.profiles == Path("/run/profiles/worker-0")
