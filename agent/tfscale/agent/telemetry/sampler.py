"""Samples that the agent takes itself: of the host, its GPUs, and the task's connections to its peers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tfscale.agent.network.peer_links import PeerLinkCollector
from tfscale.agent.telemetry.disk_collector import DiskCollector
from tfscale.agent.telemetry.host_collector import HostCollector
from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.cluster.task import Task
from tfscale.core.records.host_sample import GpuSample, HostSample, Neighbour


class Sampler:
    """Newest samples of the host and its GPUs. Sampling the host takes about 1 ms and runs on the event loop.

    The disk and the connections, which may take long, are sampled by threads, and so are the GPUs by the process.
    """

    def __init__(
        self,
        folder: Path,
        spec: ClusterSpec,
        task: Task,
        gpus: Callable[[], tuple[GpuSample, ...]],
        host: HostCollector | None = None,
    ) -> None:
        """Prepare; `folder` is the task's working folder, and `gpus` returns the newest samples of the GPUs."""
        self._host: HostCollector | None = host or HostCollector()
        """None once it has stopped: the collector's files are closed with it."""
        self._disk = DiskCollector(folder)
        self._links = PeerLinkCollector(spec, task)
        self._gpus = gpus
        self.host: HostSample | None = None
        self.gpus: tuple[GpuSample, ...] = ()
        self._sampled: HostSample | None = None
        self._was_kept = False
        """True where the last call has kept the sample of the one before."""

    def start(self) -> None:
        self._disk.start()
        self._links.start()

    def stop(self) -> None:
        self._disk.stop()
        self._links.stop()
        self._host = None

    def sample(
        self,
        task_pid: int | None,
        neighbours: tuple[Neighbour, ...] = (),
        stands_at: str = "",
        *,
        goes_on: bool = False,
    ) -> None:
        """Take new samples into `host` and `gpus`; the host's has the neighbours and the task's usage.

        `goes_on` tells that the task has made steps since the last call: then the host is sampled at each second call.
        The agent's CPU time is missing in the steps, and half of it is spent on these samples.

        If the host cannot be sampled, `host` is None and the exception is raised.
        """
        self.host, self.gpus = None, self._gpus()
        disk, links = self._disk.latest(), self._links.latest()
        host = self._sampled_host(task_pid, goes_on)
        task = replace(host.task, stands_at=stands_at) if host.task and stands_at else host.task
        self.host = replace(host, task=task, disk=disk, links=links, neighbours=neighbours)

    def _sampled_host(self, task_pid: int | None, goes_on: bool) -> HostSample:
        assert self._host is not None, "no sample is taken after `stop`"
        kept, self._sampled = self._sampled, None
        self._was_kept = kept is not None and goes_on and not self._was_kept
        self._sampled = kept if self._was_kept and kept else self._host.sample(task_pid, goes_on=goes_on)
        return self._sampled
