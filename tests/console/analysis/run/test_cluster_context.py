"""Counters of all tasks, which are condensed by turns and judged together."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tfscale.console.analysis.observed.observed_task import ObservedTask
from tfscale.console.analysis.run.cluster_context import MOST_WATCHED, PERIOD, ClusterContext
from tfscale.console.analysis.steps.step_table import StepTable
from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.records.frame import Frame
from tfscale.core.records.host_sample import HostSample
from tfscale.core.records.step_batch import StepBatch

NOTHING = StepTable().aligned(())


@pytest.mark.parametrize("workers", [1, 3, 200])
def test_full_cpus_are_found_whether_few_are_watched_or_many(
    workers: int, cluster: Callable[..., ClusterSpec], frame: Callable[..., Frame]
) -> None:
    context = ClusterContext(cluster(workers))
    found: list[tuple[float, str | None]] = []
    for second in range(50):
        # From the 20th second on, of all but one.
        for worker in range(workers):
            use = 1.0 if second >= 20 and (worker or workers == 1) else 0.2
            context.observe(f"worker:{worker}", frame(at=float(second), host=HostSample(use, 4, 1.0, 1, 2, 0)))
        limits = context.evaluate(NOTHING, {}, False, True, float(second))
        found += [(float(second), each.sentence) for each in limits]
    assert len(context._vitals) == min(workers, 50 if workers == 200 else MOST_WATCHED)
    at, sentence = found[0]
    assert "CPUs are full" in (sentence or "")
    # The median of ten seconds, two judgements ten seconds apart, and at most one period until the first of them.
    assert 25 <= at <= 25 + 10 + 2 * PERIOD


def test_a_limit_began_at_one_time_for_all_whenever_they_came(
    cluster: Callable[..., ClusterSpec], frame: Callable[..., Frame]
) -> None:
    begins = set()
    for came in (0, 2, 4, 11, 13):
        context, found = ClusterContext(cluster(1)), list[Diagnosis]()
        for second in range(came, 60):
            host = HostSample(1.0 if second >= 20 else 0.2, 4, 1.0, 1, 2, 0)
            context.observe("worker:0", frame(at=float(second), host=host))
            found = context.evaluate(NOTHING, {}, False, True, float(second))
        begins.add(found[0].begin)
    assert len(begins) == 1


def test_after_a_straggler_nobodys_counters_are_of_the_time_before(
    cluster: Callable[..., ClusterSpec], frame: Callable[..., Frame]
) -> None:
    context = ClusterContext(cluster(100))
    for second in range(31):
        for worker in range(100):
            host = HostSample(0.2 if second < 10 else 0.6, 4, 1.0, 1, 2, 0)
            context.observe(f"worker:{worker}", frame(at=float(second), host=host))
        context.evaluate(NOTHING, {}, 10 <= second < 29, True, float(second))
    assert {each.cpu for each in context._vitals.values()} == {0.6}


def test_the_counters_of_a_task_that_has_gone_limit_nothing(
    cluster: Callable[..., ClusterSpec], frame: Callable[..., Frame]
) -> None:
    context, spec = ClusterContext(cluster(1)), cluster(1)
    (task,) = spec.tasks
    gone = {"worker:0": ObservedTask(task, up=False, since=20.0)}
    found: list[Diagnosis] = []
    for second in range(60):
        if second < 20:
            context.observe("worker:0", frame(at=float(second), host=HostSample(1.0, 4, 1.0, 1, 2, 0)))
        found = context.evaluate(NOTHING, gone if second >= 20 else {}, False, True, float(second))
    assert found == []


def test_steps_count_once_where_the_first_worker_ends_before_the_others_and_anew_in_a_later_process(
    cluster: Callable[..., ClusterSpec], batch: Callable[..., StepBatch]
) -> None:
    context, table = ClusterContext(cluster(2)), StepTable()
    context._goodput.note_start(0.0)
    for first in (0, 40):
        table.add(batch("worker:0", first, 40, part=7))
        table.add(batch("worker:1", first, 40, part=9))
        context.count_steps({}, table, ["worker:0", "worker:1"])
    context.count_steps({}, table, ["worker:1"])
    assert sum(context._goodput.spent(4.0).values()) == pytest.approx(4.0)
    assert context._goodput.spent(4.0)["lost_progress"] == 0.0
    later = [5.0 + 0.05 * row for row in range(40)]
    table.add(batch("worker:1", 0, 40, part=12, end=later))
    context.count_steps({}, table, ["worker:1"])
    assert context._goodput.spent(7.0)["lost_progress"] > 1.0
