"""Samples that the agent takes itself: of the host and its GPUs."""

from __future__ import annotations

from tfscale.agent.telemetry.gpu_collector import GpuCollector
from tfscale.agent.telemetry.host_collector import HostCollector
from tfscale.core.records import GpuSample, HostSample


class Sampler:
    """Newest samples of the host and its GPUs. Sampling the host takes about 1 ms and runs on the event loop."""

    def __init__(self, host: HostCollector | None = None, gpus: GpuCollector | None = None) -> None:
        self._host = host or HostCollector()
        self._gpus = gpus or GpuCollector()
        self.host: HostSample | None = None
        self.gpus: tuple[GpuSample, ...] = ()

    def start(self) -> None:
        self._gpus.start()

    def stop(self) -> None:
        self._gpus.stop()

    def sample(self, task_pid: int | None) -> None:
        """Take new samples into `host` and `gpus`.

        If the host cannot be sampled, `host` is None and the exception is raised.
        """
        self.host, self.gpus = None, self._gpus.latest()
        self.host = self._host.sample(task_pid)
