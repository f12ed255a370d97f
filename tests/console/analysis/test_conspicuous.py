import re
from collections.abc import Callable

import pytest
from phase_simulation import Simulation
from tfscale.console.analysis.conspicuous import Conspicuous, ConspicuousWatch
from tfscale.console.analysis.diagnostician import Diagnostician
from tfscale.console.analysis.stragglers.straggler_rule import Suspect
from tfscale.console.sources.simulation.step_phases import Slow

Make = Callable[[int], Diagnostician]
TASKS = ("worker:0", "worker:1")


def headlines(observer: Diagnostician, simulation: Simulation) -> list[str]:
    said = []
    for task, frame in simulation.frames():
        observer.observe(task, frame)
        if task == f"worker:{simulation.workers - 1}":
            said.append(observer.diagnose(frame.at).headline)
    return said


def test_a_ratio_about_the_limit_does_not_make_the_headline_alternate() -> None:
    watch = ConspicuousWatch()
    ratios = [1.0, 1.45, 1.55, 1.45, 1.3, 1.6, 1.45, 1.2, 1.6, 1.2, 1.1, 1.0, 1.0, 1.0, 1.0, 1.0]
    told = [watch.judge(TASKS, {"worker:1": ratio}, None, float(at)) for at, ratio in enumerate(ratios)]
    assert [each is not None for each in told] == [False] * 2 + [True] * 12 + [False] * 2
    assert told[7] == Conspicuous("worker:1", 1.45, ago=1.0)
    assert told[13] == Conspicuous("worker:1", 1.6, ago=5.0)


def test_who_looked_slow_a_moment_ago_is_told_so_and_another_attempt_begins_anew() -> None:
    watch, suspect = ConspicuousWatch(), Suspect("worker:1", 90.0)
    assert watch.judge(TASKS, {}, suspect, 100.0) == Conspicuous("worker:1", None)
    assert watch.judge(TASKS, {}, None, 102.0) == Conspicuous("worker:1", None, ago=2.0)
    assert watch.judge((), {}, None, 103.0) is None, "of a cluster that does not train nothing is said about its pace"
    assert watch.judge(TASKS, {}, None, 104.0) is None


@pytest.mark.parametrize("rate", [0.2, 2.0, 20.0, 400.0])
@pytest.mark.parametrize(
    ("workers", "quick", "named"), [(4, 1, "worker:0 is"), (8, 3, "worker:0, worker:1 and worker:2 are")]
)
def test_more_than_half_slow_from_the_start_are_not_called_healthy(
    diagnostician: Make, workers: int, quick: int, named: str, rate: float
) -> None:
    slow = tuple(Slow(worker, 2.0) for worker in range(quick, workers))
    said = headlines(diagnostician(workers), Simulation(workers, rate, max(30.0, 12 / rate), slow=slow))
    assert not any("healthy" in each for each in said)
    assert re.search(rf"; {named} 1\.[789]x as fast as the other {workers - quick}: they are slow, or ", said[-1])


def test_one_quick_worker_among_many_is_no_news(diagnostician: Make) -> None:
    slow = tuple(Slow(worker, 2.0) for worker in range(1, 8))
    assert headlines(diagnostician(8), Simulation(8, 20.0, 20.0, slow=slow))[-1].startswith("healthy: ")
