"""GPUs of this host, counted before any task starts."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tfscale.agent.settings import AgentSettings
from tfscale.agent.telemetry.gpu_collector import count_gpus
from tfscale.core.cluster.local.gpu_shares import VISIBLE_GPUS, check_gpus, chosen_gpus
from tfscale.core.errors import TfscaleError

_PATIENCE = 20.0
"""Seconds for the driver to answer; without its persistence mode it wakes each of eight GPUs for more than a second."""


class SilentDriver(TfscaleError):
    """A driver that does not report its number of GPUs."""


def with_gpus(
    agents: Sequence[AgentSettings], environment: Mapping[str, str], count: Callable[[], int] = count_gpus
) -> tuple[AgentSettings, ...]:
    """Return the settings of a process's agents with the GPUs that each task may use.

    A process with one agent, or on a host without a GPU, changes nothing. Raises UsageError where there are fewer GPUs
    than tasks that compute, and SilentDriver.
    """
    if len(agents) == 1:
        return tuple(agents)
    gpus = chosen_gpus({**environment, **agents[0].cluster.program.environment})
    if gpus is None:
        gpus = tuple(str(number) for number in range(_counted(count)))
    check_gpus(gpus, [each.task for each in agents])
    seats = tuple(each.listen for each in agents)
    return tuple(replace(each, gpus=gpus, process_agents=seats) for each in agents)


def _counted(count: Callable[[], int]) -> int:
    """Return the number of GPUs; the driver is asked in a thread, because it may hang forever."""
    answer: queue.SimpleQueue[int] = queue.SimpleQueue()
    threading.Thread(target=lambda: answer.put(count()), name="count GPUs", daemon=True).start()
    try:
        return answer.get(timeout=_PATIENCE)
    except queue.Empty:
        raise SilentDriver(
            f"the driver has not said for {_PATIENCE:g} s how many GPUs this host has: look at nvidia-smi, or name "
            f"them in {VISIBLE_GPUS}"
        ) from None
