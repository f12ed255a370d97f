"""The course of a simulation: restarts end what was the process's, and a task that moves leaves what was the host's."""

from __future__ import annotations

from collections.abc import Callable

import fakes
import pytest
from tfscale.console.engine.model import Snapshot
from tfscale.console.engine.state_factory import states
from tfscale.console.sources.simulation.simulated import Shape, simulated_spec
from tfscale.console.sources.simulation.simulated_cluster import SimulatedCluster
from tfscale.console.sources.simulation.simulated_course import REPLACE_AFTER
from tfscale.console.sources.simulation.simulated_faults import Fault
from tfscale.core.cluster.cluster_spec import Address
from tfscale.core.cluster.placement.placement import PlacementError
from tfscale.core.records.task_status import TaskState

Orders = dict[int, Callable[[SimulatedCluster, float], object]]


def played(seconds: int, fault: str, orders: Orders | None = None, spares: int = 1) -> dict[int, Snapshot]:
    """Return what a console shows of three workers at each second; `orders` are given at theirs."""
    spec, second = simulated_spec(3, Shape(spares=spares)), 1
    cluster, state = SimulatedCluster(spec, (Fault.parse(fault),), 10.0, 0), states(spec)()
    shown: dict[int, Snapshot] = {}
    for event in cluster.arrivals(fakes.NOW):
        while event.at > fakes.NOW + second:
            shown[second] = state.snapshot(fakes.NOW + second)
            if orders and second in orders:
                orders[second](cluster, fakes.NOW + second)
            second += 1
            if second > seconds:
                return shown
        state.fold(event)
    return shown


def restarted(cluster: SimulatedCluster, now: float) -> object:
    return cluster.restart([fakes.worker(1)], now, "asked")


def moved(cluster: SimulatedCluster, now: float) -> object:
    return cluster.restart(cluster.course.tasks, now, "asked", "10.0.0.3")


@pytest.mark.parametrize("fault", ["worker:1=hang@8s", "worker:1=kill@8s", "worker:1=stop@8s", "worker:1=1.8x@8s"])
def test_a_restart_ends_what_is_wrong_with_the_process(fault: str) -> None:
    shown = played(50, fault, {25: restarted})
    assert shown[24].findings.top is not None and "worker:1" in shown[24].findings.headline
    assert {view.status.state for view in shown[28].tasks if view.status} == {TaskState.STARTING}
    newest = shown[49]
    assert newest.findings.headline.startswith("healthy: 3 workers in step")
    assert {view.status.generation for view in newest.tasks if view.status} == {2}


def test_a_restart_in_place_leaves_what_is_wrong_with_the_host_and_a_move_does_not() -> None:
    shown = played(75, "worker:1=thermal@8s", {22: restarted, 50: moved})
    assert shown[20].findings.headline.startswith("worker:1 has been slow")
    assert shown[49].findings.headline.startswith("worker:1 has been slow") and shown[49].generation == 2
    newest = shown[74]
    assert newest.findings.headline.startswith("healthy") and newest.generation == 3
    assert newest.view(fakes.worker(1)).agent == Address("10.0.0.5", 7070)
    assert newest.cordoned == {"10.0.0.3": "asked"}


def test_the_task_of_a_dead_host_is_placed_on_the_spare_by_itself() -> None:
    shown = played(70, "worker:1=gone@10s")
    spare = Address("10.0.0.5", 7070)
    assert shown[20].free_seats == {spare: True}
    assert shown[20].findings.headline.startswith("worker:1's host does not answer to anyone")
    assert shown[int(10 + REPLACE_AFTER)].view(fakes.worker(1)).agent == Address("10.0.0.3", 7070)
    newest = shown[69]
    assert newest.view(fakes.worker(1)).agent == spare and newest.view(fakes.worker(1)).host == "node-0003"
    assert newest.free_seats == {Address("10.0.0.3", 7070): False}
    assert newest.findings.headline.startswith("healthy: 3 workers in step")
    assert any("worker:1 to 10.0.0.5" in entry.text for entry in newest.timeline)


def test_without_a_spare_a_dead_host_is_waited_for_and_no_restart_leaves_it() -> None:
    def refused(cluster: SimulatedCluster, now: float) -> None:
        with pytest.raises(PlacementError, match="there is no place for worker:1"):
            moved(cluster, now)

    shown = played(60, "worker:1=gone@10s", {50: refused}, spares=0)
    assert shown[59].findings.headline.startswith("worker:1's host does not answer") and shown[59].generation == 1
