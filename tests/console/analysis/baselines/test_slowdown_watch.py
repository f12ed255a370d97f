"""Slowdowns that all workers share: they have a cause, and name no worker."""

from collections.abc import Callable

import pytest
from phase_simulation import Noise, Simulation
from tfscale.console.analysis.diagnostician import Diagnostician
from tfscale.console.sources.simulation.step_phases import Slow
from tfscale.core.records.diagnosis import Diagnosis

Make = Callable[[int], Diagnostician]


def watch(observer: Diagnostician, simulation: Simulation) -> list[Diagnosis]:
    """Return every diagnosis of such a run, as it was found last."""
    found: dict[tuple[str, str, float], Diagnosis] = {}
    for task, frame in simulation.frames():
        observer.observe(task, frame)
        if task == f"worker:{simulation.workers - 1}":
            found |= {(each.kind, each.subject, each.begin): each for each in observer.diagnose(frame.at).diagnoses}
    return list(found.values())


def everybody(phase: str, extra: float, begin: float = 80.0, workers: int = 3) -> tuple[Slow, ...]:
    own = range(1 if phase == "reduce" else workers)  # the transfer is everybody's
    return tuple(Slow(worker, extra=extra, phase=phase, begin=begin) for worker in own)


@pytest.mark.parametrize(
    ("phase", "part", "cause", "words"),
    [
        ("reduce", "transfer", "network", "the network is slower, or the hosts are busy with other things"),
        ("input", "input", "input", "every worker's waiting for data has taken"),
        ("host", "host", "host", "every worker's Python between steps has taken"),
        ("compute", "compute", "unknown", "every worker's compute has taken"),
    ],
)
def test_what_slows_all_workers_down_is_named_and_nobody_is_blamed(
    diagnostician: Make, phase: str, part: str, cause: str, words: str
) -> None:
    found = watch(diagnostician(3), Simulation(3, 20.0, 130.0, slow=everybody(phase, 0.03)))
    (slowdown,) = [each for each in found if each.kind == "slowdown"]
    assert (slowdown.subject, slowdown.evidence["part"], slowdown.evidence["cause"]) == ("cluster", part, cause)
    assert slowdown.begin == pytest.approx(82.0, abs=4.0)
    assert slowdown.evidence["excess"] == pytest.approx(0.03, rel=0.15)
    assert words in slowdown.sentence
    assert "The cluster loses 3" in slowdown.sentence
    assert [each for each in found if each.kind == "straggler"] == []


@pytest.mark.parametrize("noise", [Noise(), Noise(0.10, memory=0.9), Noise(0.05, bursts=0.1, burst_ratio=2.0)])
def test_equal_workers_in_noise_have_not_become_slower(diagnostician: Make, noise: Noise) -> None:
    found = watch(diagnostician(4), Simulation(4, 10.0, 300.0, noise=noise, seed=5))
    assert [each for each in found if each.kind == "slowdown"] == []


def test_of_two_parts_that_take_longer_the_one_that_costs_more_is_told(diagnostician: Make) -> None:
    slow = everybody("reduce", 0.03) + everybody("input", 0.015)
    found = watch(diagnostician(3), Simulation(3, 20.0, 130.0, slow=slow))
    assert [each.evidence["cause"] for each in found if each.kind == "slowdown"] == ["network"]


def test_a_slowdown_ends(diagnostician: Make) -> None:
    slow = everybody("reduce", 0.03) + everybody("reduce", -0.03, begin=120.0)
    found = watch(diagnostician(3), Simulation(3, 20.0, 150.0, slow=slow))
    (slowdown,) = [each for each in found if each.kind == "slowdown"]
    assert slowdown.end == pytest.approx(122.0, abs=4.0)


def test_one_slow_worker_is_not_everybody(diagnostician: Make) -> None:
    found = watch(diagnostician(3), Simulation(3, 20.0, 130.0, slow=(Slow(1, extra=0.05, begin=80.0),)))
    assert {(each.kind, each.subject) for each in found} == {("straggler", "worker:1")}
