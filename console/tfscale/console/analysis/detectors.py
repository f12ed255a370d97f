"""All rules in one list, in the order in which they look at the cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tfscale.console.analysis.detector import ClusterView, Detector
from tfscale.console.analysis.learning.empty_batches import empty_batches
from tfscale.console.analysis.learning.non_finite import not_finite
from tfscale.console.analysis.network.silence import SilenceWatch
from tfscale.console.analysis.network.slow_links import SlowLinks
from tfscale.console.analysis.network.uneven_servers import uneven_servers
from tfscale.console.analysis.network.wrong_clocks import WrongClocks
from tfscale.console.analysis.observed.observed_task import ObservedTask
from tfscale.console.analysis.observed.seats import SeatWatch
from tfscale.console.analysis.observed.side_by_side import side_by_side
from tfscale.console.analysis.restarts.restart_watch import RestartWatch
from tfscale.console.analysis.run.cluster_context import ClusterContext
from tfscale.console.analysis.step_groups import StepGroups
from tfscale.console.analysis.tasks.announced_restart import with_restart
from tfscale.console.analysis.tasks.blocked import blocked
from tfscale.console.analysis.tasks.crashes import CrashWatch
from tfscale.console.analysis.tasks.hangs import hangs
from tfscale.console.analysis.tasks.no_first_step import no_first_step
from tfscale.console.analysis.tasks.not_fitting import not_fitting
from tfscale.console.analysis.tasks.not_measured import not_measured
from tfscale.console.analysis.tasks.not_started import not_started
from tfscale.console.analysis.tasks.not_trained import not_trained
from tfscale.console.analysis.tasks.stuck_functions import stuck_functions
from tfscale.console.analysis.tasks.unused_gpus import unused_gpus
from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.records.diagnosis import Diagnosis


@dataclass(frozen=True, slots=True)
class Watched:
    """Cluster of the detectors, and the two detectors that the diagnostician asks for more than findings."""

    spec: ClusterSpec
    seats: SeatWatch
    tasks: Mapping[str, ObservedTask]
    steps: StepGroups
    context: ClusterContext


class TaskRule(Detector):
    """Rule without a memory: a function of the view. Rules about tasks work without numpy, unlike a view."""

    def __init__(self, rule: Callable[[ClusterView], list[Diagnosis]]) -> None:
        self._rule = rule

    def diagnose(self, view: ClusterView) -> list[Diagnosis]:
        """Return the rule's findings."""
        return self._rule(view)


class CrashRule(TaskRule):
    """Rule about crashes. Once others have explained them, each is told with its restart."""

    def __init__(self, rule: Callable[[ClusterView], list[Diagnosis]], seats: SeatWatch) -> None:
        super().__init__(rule)
        self._seats = seats

    def explain(self, view: ClusterView) -> list[Diagnosis]:
        """Return all findings, with what agents do about each crash."""
        return [self._with_restart(each, view) if each.kind == "crash" else each for each in view.found]

    def _with_restart(self, crash: Diagnosis, view: ClusterView) -> Diagnosis:
        if self._seats.has_moved(crash.subject, crash.begin):
            return replace(crash, evidence={**crash.evidence, "restart_at": view.now})
        return with_restart(crash, view.by_name)


def _crashes(watched: Watched) -> Detector:
    addresses = {(each.host, each.port): str(task) for task, each in watched.spec.tasks.items()}
    watch = CrashWatch(addresses)
    return CrashRule(lambda view: watch.diagnose(view.by_name, view.now), watched.seats)


def _task_rule(rule: Callable[[ClusterView], list[Diagnosis]]) -> Callable[[Watched], Detector]:
    return lambda _: TaskRule(rule)


DETECTORS: tuple[Callable[[Watched], Detector], ...] = (
    lambda watched: SilenceWatch(watched.spec, watched.seats),
    _crashes,
    _task_rule(lambda view: blocked(view.tasks)),
    _task_rule(lambda view: stuck_functions(view.tasks) or hangs(view.tasks, view.condition)),
    _task_rule(lambda view: not_started(view.tasks, view.now)),
    _task_rule(lambda view: no_first_step(view.tasks, view.now)),
    _task_rule(lambda view: not_trained(view.tasks)),
    _task_rule(lambda view: not_measured(view.tasks)),
    _task_rule(lambda view: side_by_side(view.tasks, view.steps.keeps_step)),
    _task_rule(lambda view: not_fitting(view.tasks)),
    _task_rule(lambda view: unused_gpus(view.tasks)),
    _task_rule(lambda view: uneven_servers(view.tasks)),
    _task_rule(lambda view: not_finite(view.tasks)),
    _task_rule(lambda view: empty_batches(view.tasks)),
    lambda watched: watched.steps,
    lambda _: WrongClocks(),
    lambda _: SlowLinks(),
    lambda watched: watched.context,
    lambda watched: RestartWatch(tuple(watched.tasks.values())),
)
"""Makers of all detectors. A detector may read the findings of the detectors before it; an explanation of several
findings comes after all detectors were asked, in the same order."""
