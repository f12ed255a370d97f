"""Page for Prometheus of the agents of one process: their tasks, and what the process itself takes.

Each agent gives every frame to it, once the frame is made. A scrape reads what was given, and waits for no agent.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from prometheus_client import ProcessCollector
from prometheus_client.core import Metric
from tfscale.agent.settings import AgentSettings
from tfscale.agent.wire import EncodedSteps, step_sums
from tfscale.core.metrics.metric_table import Families
from tfscale.core.metrics.page_address import at
from tfscale.core.metrics.page_server import PageServer
from tfscale.core.metrics.task_metrics import STALE, TaskCounts, add_energy, add_steps, add_task
from tfscale.core.metrics.task_totals import CollectiveTotals, StepTotals
from tfscale.core.records.frame import Frame
from tfscale.core.records.host_sample import GpuSample
from tfscale.core.version import installed_version


@dataclass(slots=True)
class TaskRecord:
    """Knowledge of the page about one agent's task."""

    settings: AgentSettings
    collectives: CollectiveTotals = field(default_factory=CollectiveTotals)
    steps: dict[str, StepTotals] = field(default_factory=dict)
    """Totals by the task whose steps they are: under ParameterServerStrategy the chief measures its workers'."""
    newest: tuple[float, Frame] | None = None
    """Newest frame, and the monotonic seconds at which it was made."""

    def publish(self, frame: Frame, steps: Iterable[EncodedSteps]) -> None:
        """Take in a new frame, and the steps that were reported since the frame before."""
        self.collectives.note(frame)
        for encoded in steps:
            batch = step_sums(encoded)
            # The rows of replicas and stages are parts of those of their task.
            if "/" not in batch.subject:
                known = self.steps.get(batch.subject, StepTotals())
                self.steps[batch.subject] = known.plus(encoded.rows, batch.lost, batch.seconds)
        self.newest = time.monotonic(), frame

    @property
    def is_stale(self) -> bool:
        return self.newest is None or time.monotonic() - self.newest[0] > STALE

    def add_to(self, families: Families) -> None:
        """Add the samples of this task and of the tasks that it measures; none while the agent is stuck."""
        if self.newest is None or self.is_stale:
            return
        run, task, frame, totals = self.settings.run, str(self.settings.task), self.newest[1], self.steps.copy()
        counts = TaskCounts(totals.get(task, StepTotals()), self.collectives.counts)
        add_task(families, run, task, frame, host=socket.gethostname(), counts=counts, gpus=self._gpus(frame))
        for other, steps in totals.items():
            if other != task:
                add_steps(families, run, other, steps)

    @property
    def gpus(self) -> list[GpuSample]:
        """GPUs that the task may use; none while the agent is stuck."""
        return [] if self.newest is None or self.is_stale else self._gpus(self.newest[1])

    def _gpus(self, frame: Frame) -> list[GpuSample]:
        """Return the GPUs that the task may use."""
        if (visible := self.settings.visible_gpus) is None:
            return list(frame.gpus)
        names = visible.split(",")
        return [gpu for gpu in frame.gpus if str(gpu.index) in names or gpu.uuid in names]


class AgentPage:
    """Page of a process; its agents come and go as their tasks are placed."""

    def __init__(self) -> None:
        self._records: list[TaskRecord] = []
        self._process = ProcessCollector(registry=None)

    @contextlib.contextmanager
    def shown(self, settings: AgentSettings) -> Iterator[TaskRecord]:
        """Show the task of an agent until the block ends."""
        record = TaskRecord(settings)
        self._records.append(record)
        try:
            yield record
        finally:
            self._records.remove(record)

    def collect(self) -> Iterator[Metric]:
        families = Families()
        families.add("tfscale_build_info", "tfscale-agent", installed_version() or "")
        records = list(self._records)
        for record in records:
            record.add_to(families)
        for run in {record.settings.run for record in records}:
            its_gpus = (gpu for record in records if record.settings.run == run for gpu in record.gpus)
            add_energy(families, run, its_gpus)
        yield from families.metrics()
        yield from self._process.collect()

    def trouble(self) -> str:
        stuck = [str(each.settings.task) for each in list(self._records) if each.newest is not None and each.is_stale]
        return f"no frame for {STALE:g} s of {', '.join(stuck)}" if stuck else ""

    def waits(self) -> str:
        records = list(self._records)
        begun = [each for each in records if each.newest is not None]
        return "" if begun and len(begun) == len(records) else "no task, or not every agent of this process has begun"


@contextlib.contextmanager
def served_page(agents: Sequence[AgentSettings]) -> Iterator[AgentPage]:
    """Serve the page of these agents until the block ends. Raises UsageError where its port cannot be had."""
    first = agents[0]
    assert first.metrics is not None
    page = AgentPage()
    server = PageServer(at(first.metrics, first.listen.host), page, first.cluster, insecure=first.insecure)
    with server.serving():
        yield page
