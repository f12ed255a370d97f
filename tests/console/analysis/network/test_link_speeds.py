"""Speeds that the cluster file gives, and what links have carried."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from phase_simulation import Simulation
from tfscale.console.analysis.diagnostician import Diagnostician
from tfscale.console.analysis.network.link_speeds import LinkSpeeds
from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.cluster.file.cluster_file import parse_cluster
from tfscale.core.records.host_sample import HostSample, Interface

HOST = HostSample(0.5, 2, 1.0, 1 << 30, 8 << 30, 0)


@pytest.fixture
def spec() -> ClusterSpec:
    document = {"cluster": {"worker": ["10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1"]}, "links": {"worker:2": "200Mbit/s"}}
    return parse_cluster(document, name="test", where="test", base=Path.cwd())


def test_a_link_that_carried_more_than_it_is_said_to_has_a_wrong_speed(spec: ClusterSpec) -> None:
    speeds = LinkSpeeds(spec)
    for carried in (100e6, 215e6):
        speeds.note_carried("worker:2", carried, 5.0)
    assert speeds.given("worker:2") == 200e6 and speeds.wrong == []
    speeds.note_carried("worker:2", 558e6, 7.0)
    speeds.note_carried("worker:2", 560e6, 9.0)
    assert speeds.given("worker:2") is None
    (wrong,) = speeds.wrong
    assert (wrong.kind, wrong.subject, wrong.begin, wrong.severity) == ("wrong_speed", "worker:2", 7.0, "warning")
    assert wrong.sentence == (
        "the cluster file gives worker:2's link 200 Mbit/s, but it carried 558 Mbit/s: correct its speed under [links]"
    )


def test_a_link_without_a_speed_has_none_that_is_wrong(spec: ClusterSpec) -> None:
    speeds = LinkSpeeds(spec)
    speeds.note_carried("worker:1", 1e12, 5.0)
    assert speeds.given("worker:1") is None and speeds.wrong == []


def test_no_link_is_ever_fuller_than_full(spec: ClusterSpec) -> None:
    observer, told = Diagnostician(spec), []
    for index in range(3):
        observer.note_link(f"worker:{index}", True, 0.0)
    for task, made in Simulation(3, 20.0, 40.0).frames():
        interface = Interface("eth0", 70e6, 70e6, None)
        steps = tuple(replace(batch, reduce=[20 * seconds for seconds in batch.reduce]) for batch in made.steps)
        observer.observe(task, replace(made, steps=steps, host=replace(HOST, interfaces=(interface,))))
        if task == "worker:2":
            told += [each.sentence for each in observer.diagnose(made.at).diagnoses]
    assert any("the cluster file gives worker:2's link 200 Mbit/s, but it carried 560 Mbit/s" in each for each in told)
    assert not any("is full" in each for each in told)
