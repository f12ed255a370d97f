"""What the agent measures itself: the host and its GPUs."""

from __future__ import annotations

from tfscale.agent.collectors.gpu import GpuCollector
from tfscale.agent.collectors.host import HostCollector
from tfscale.core.records import GpuSample, HostSample


class Sampler:
    """Host and GPUs at one moment. The host's part takes about a millisecond and runs on the loop."""

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
        """Renew `host` and `gpus`. Whatever the host's part raises, neither stays as it was."""
        self.host, self.gpus = None, self._gpus.latest()
        self.host = self._host.sample(task_pid)
