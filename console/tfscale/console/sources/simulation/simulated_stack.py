"""Python stacks of simulated programs: where each of them would stand, by its faults."""

from __future__ import annotations

from collections.abc import Sequence

from tfscale.console.sources.simulation.simulated_faults import STANDSTILLS, Fault
from tfscale.core.cluster.task import Task

_PACKAGES = "/usr/lib/python3/dist-packages"
_PROGRAM = ("/home/user/train.py", 58, "<module>")
_FIT = (f"{_PACKAGES}/keras/src/backend/tensorflow/trainer.py", 399, "fit")
_STEP = (f"{_PACKAGES}/keras/src/backend/tensorflow/trainer.py", 241, "function")
_EXECUTE = (f"{_PACKAGES}/tensorflow/python/eager/execute.py", 53, "quick_execute")
_CALLBACK = (f"{_PACKAGES}/keras/src/callbacks/callback_list.py", 172, "on_train_batch_end")
_LOCK = ("/home/user/train.py", 41, "on_train_batch_end")
_WAIT = ("/usr/lib/python3.11/threading.py", 331, "wait")
_NEXT = (f"{_PACKAGES}/tensorflow/python/data/ops/iterator_ops.py", 826, "_next_internal")
_PREFETCH = ("/usr/lib/python3.11/threading.py", 1002, "_bootstrap")

Place = tuple[str, int, str]
"""(file, line, function)."""


def stack_of(task: Task, faults: Sequence[Fault], at: float) -> str:
    """Return the stacks of a task's threads at `at`, seconds of the simulation, the newest call first."""
    main = [*_main(task, [fault for fault in faults if fault.holds(at)]), _FIT, _PROGRAM]
    return "\n\n".join([_thread("Main thread", main), _thread("Thread 0x00007f2ac35fe6c0", [_WAIT, _PREFETCH])])


def _main(task: Task, faults: Sequence[Fault]) -> Sequence[Place]:
    own = [fault for fault in faults if fault.task == task]
    if any(fault.kind in STANDSTILLS or fault.phase == "host" for fault in own):
        return [_WAIT, _LOCK, _CALLBACK]
    if any(fault.phase == "input" for fault in own):
        return [_NEXT]
    return [_EXECUTE, _STEP]


def _thread(name: str, places: Sequence[Place]) -> str:
    lines = [f'  File "{file}", line {line} in {function}' for file, line, function in places]
    return "\n".join([f"{name} (most recent call first):", *lines])
