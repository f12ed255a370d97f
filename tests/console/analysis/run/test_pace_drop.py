"""A training that was faster within the last minute."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from phase_simulation import Noise, Simulation
from tfscale.console.analysis.diagnostician import Diagnostician
from tfscale.console.analysis.run.pace_drop import Drop, PaceDrop
from tfscale.console.sources.simulation.step_phases import Slow


def drops(*rates: float) -> list[Drop | None]:
    memory, found = PaceDrop(), []
    for second, rate in enumerate(rates):
        memory.remember(float(second), rate)
        found.append(memory.newest())
    return found


def test_a_run_that_was_twice_as_fast_has_dropped_until_that_is_a_minute_ago() -> None:
    found = drops(*[10.0] * 60, *[5.0] * 90)
    assert not any(found[:79]) and found[80] == Drop(2.0, 59.0) and found[100] == Drop(2.0, 59.0)
    assert not any(found[-15:])


def test_a_run_of_steps_that_take_1_4_times_as_long_has_dropped_after_twenty_seconds() -> None:
    assert drops(*[5.0] * 12, *[3.5] * 20)[-1] == Drop(pytest.approx(5.0 / 3.5), 11.0)


def test_a_few_slow_seconds_and_noise_are_no_drop() -> None:
    assert not any(drops(*[10.0] * 60, *[2.0] * 9, *[10.0] * 60))
    assert not any(drops(*[10.0] * 60, *[8.1] * 60))
    assert not any(drops(*[10.0, 8.0] * 60, *[8.0, 7.0] * 60))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_cluster_in_which_half_of_the_workers_are_slow_is_not_healthy_and_one_with_noise_is(
    diagnostician: Callable[[int], Diagnostician], seed: int
) -> None:
    def said(noise: Noise, *slow: Slow, second: float) -> list[str]:
        observer = diagnostician(4)
        headlines = []
        for task, frame in Simulation(4, 5.0, second, noise, slow, seed).frames():
            observer.observe(task, frame)
            if task == "worker:3":
                headlines.append(observer.diagnose(frame.at).headline)
        return headlines

    two = [Slow(worker, extra=0.08, phase="input", begin=12.0) for worker in (1, 2)]
    third = Slow(3, ratio=1.3, begin=20.0)
    assert not said(Noise(0.03), *two, third, second=45.0)[-1].startswith("healthy")
    noisy = said(Noise(0.2, memory=0.9, spikes=0.02), second=90.0)
    assert not [each for each in noisy if "as fast" in each]
