"""Restarts of simulated clusters: what is told of their cost and their gain, and when nothing is."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pytest
from phase_simulation import Noise, Simulation, frame
from tfscale.console.analysis.diagnostician import Diagnostician
from tfscale.console.analysis.findings import is_calm
from tfscale.console.sources.simulation.step_phases import Slow
from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.records.frame import Frame
from tfscale.core.records.probe_status import ProbeState, ProbeStatus
from tfscale.core.records.step_batch import StepBatch
from tfscale.core.records.task_status import Exit, TaskState, TaskStatus

Make = Callable[[int], Diagnostician]
CONSOLE = 1_000.0
"""Time at which the simulations begin: agents' clocks have no zero."""
QUIET = Noise(0.03, spikes=0.0)


@dataclass(frozen=True)
class Run:
    """One attempt of all workers: its steps begin at `begin`, and it is asked to end at `end`."""

    begin: float
    end: float
    rate: float = 20.0
    """Steps a second."""
    first: int = 0
    """Its first global step."""
    slow: tuple[Slow, ...] = ()
    batch: int = 64
    noise: Noise = QUIET
    numbered: bool = True
    stops: bool = True
    """False where its processes die, and are not asked to end."""
    shift: float = 0.0
    """Seconds by which its hosts' clocks are off."""
    reason: str = ""
    restarted_for: str = ""
    start: float = 0.0
    """Start of its processes; 0: two seconds after the end of those before."""


def started(runs: tuple[Run, ...]) -> list[float]:
    """Return when the processes of each run are started, in seconds."""
    return [run.start or (runs[number - 1].end + 2.0 if number else -4.0) for number, run in enumerate(runs)]


def frames(workers: int, *runs: Run, seconds: float = 0.0) -> Iterator[tuple[str, Frame]]:
    """Yield (task, frame) of each second, up to 70 s after the last start unless `seconds` are given."""
    steps = [
        Simulation(workers, run.rate, run.end - run.begin, run.noise, run.slow, seed).steps()
        for seed, run in enumerate(runs)
    ]
    starts = started(runs)
    quiet = [(before.end + 10, start - 1) for before, start in zip(runs, starts[1:], strict=False)]
    for second in range(1, int(seconds or runs[-1].begin + 70.0) + 1):
        at = float(second)
        if any(begin < at < end for begin, end in quiet):
            continue
        number = max(index for index, start in enumerate(starts) if start <= at)
        run = runs[number]
        ends, phases = steps[number]
        low, high = np.searchsorted(ends, [at - 1 - run.begin, min(at, run.end) - run.begin])
        for worker in range(workers):
            made = frame(worker, at, ends + run.begin, phases, int(low), int(high))
            yield f"worker:{worker}", told_by(made, run, number + 1, starts[number], at)


def told_by(made: Frame, run: Run, generation: int, start: float, at: float) -> Frame:
    status = TaskStatus(TaskState.RUNNING, generation, 1, 7, CONSOLE + start + run.shift, None, run.reason)
    status = replace(status, restarted_for=run.restarted_for)
    if at > run.end:
        state = TaskState.STOPPING if run.stops and at <= run.end + 1 else TaskState.EXITED
        end = (
            None if state is TaskState.STOPPING else Exit(0 if run.stops else 1, None, CONSOLE + run.end + 1, run.stops)
        )
        status = replace(status, state=state, exit=end)
    steps = tuple(
        replace(
            each,
            generation=generation,
            sequence=range(each.sequence[0], each.sequence[-1] + 1),
            end=array("d", [end + CONSOLE + run.shift for end in each.end]),
            global_step=range(each.sequence[0] + run.first, each.sequence[-1] + 1 + run.first) if run.numbered else (),
        )
        for each in made.steps
    )
    probe = replace(made.probe, examples_per_step=run.batch, reduced_bytes_per_step=1_000_000) if made.probe else None
    return replace(made, at=CONSOLE + at + run.shift, status=status, probe=probe, steps=steps)


def watch(
    observer: Diagnostician, told: Iterator[tuple[str, Frame]], workers: int, late: float = 0.0
) -> list[tuple[float, Diagnosis]]:
    """Return (seconds, restart) of what is told of restarts."""
    found = []
    for task, each in told:
        second = each.sequence + 1.0
        if second > late:
            observer.observe(task, each)
        if task == f"worker:{workers - 1}":
            findings = observer.diagnose(CONSOLE + second)
            found += [(second, each) for each in findings.diagnoses if each.kind == "restart"]
    return found


def only(found: list[tuple[float, Diagnosis]]) -> Diagnosis:
    ((_, restart),) = found
    assert restart.severity == "info" and is_calm(restart) and restart.end is not None
    return restart


def test_the_restart_of_a_straggler_gains_what_was_expected_and_is_paid_back(diagnostician: Make) -> None:
    slow = Run(0.0, 100.0, slow=(Slow(2, 1.4, begin=40.0),))
    steps = int(np.searchsorted(Simulation(3, 20.0, 100.0, slow.noise, slow.slow, 0).steps()[0], 100.0))
    told = watch(
        diagnostician(3),
        frames(3, slow, Run(141.0, 300.0, first=steps - 12, reason="it is slow", restarted_for="worker:1")),
        3,
    )
    restart, ((at, _),) = only(told), told
    found = re.fullmatch(
        r"restart of 3 workers gained (\d+)% \((\d+)% expected\), cost (\d+) s with 12 repeated steps, "
        r"(?:will be )?paid back after (\d+) s",
        restart.sentence,
    )
    assert found is not None, restart.sentence
    gained, expected, cost, paid = map(int, found.groups())
    assert gained == pytest.approx(29, abs=3) and expected == pytest.approx(29, abs=3)
    assert cost == pytest.approx(42, abs=1) and paid == pytest.approx(42 / (gained / 100), rel=0.05)
    assert restart.begin == pytest.approx(CONSOLE + 100.0, abs=0.2)
    assert restart.end == pytest.approx(restart.begin + cost, abs=1.0)
    assert 200 <= at <= 206, "half a minute of warm-up, half a minute of steps"
    assert restart.subject == "cluster"
    assert restart.evidence["tasks"] == ("worker:0", "worker:1", "worker:2")
    assert (restart.evidence["reason"], restart.evidence["restarted_for"]) == ("it is slow", "worker:1")


def test_where_nothing_was_slow_it_cost_and_gained_nothing(diagnostician: Make) -> None:
    told = watch(diagnostician(3), frames(3, Run(0.0, 90.0), Run(120.0, 300.0, first=1700)), 3)
    assert re.fullmatch(
        r"restart of 3 workers cost 3\d s with \d+ repeated steps; as fast as before", only(told).sentence
    )


def test_slower_than_before_is_said(diagnostician: Make) -> None:
    told = watch(diagnostician(2), frames(2, Run(0.0, 90.0), Run(120.0, 300.0, rate=18.4, first=1800)), 2)
    assert re.fullmatch(r"restart of 2 workers cost 3\d s.*; [78]% slower than before", only(told).sentence)


@pytest.mark.parametrize("rate", [0.2, 500.0])
def test_steps_of_any_length(diagnostician: Make, rate: float) -> None:
    first = int(150 * rate)
    # Ten steps of five seconds take longer than half a minute.
    long = 140.0 if rate < 1 else 75.0
    slow = Run(0.0, long, rate, slow=(Slow(1, 1.5),), noise=QUIET)
    anew = Run(long + 40, long + 200, rate, first, noise=QUIET)
    told = watch(diagnostician(3), frames(3, slow, anew, seconds=long + (150 if rate < 1 else 105)), 3)
    restart = only(told)
    assert restart.evidence["gained"] == pytest.approx(0.36, abs=0.04)
    assert restart.evidence["expected"] == pytest.approx(0.36, abs=0.04)
    assert restart.evidence["lost_seconds"] == pytest.approx(
        40.0 + (7.0 if rate < 1 else 0.0), abs=1.5 / min(rate, 1.0)
    )


@pytest.mark.parametrize("workers", [1, 64])
def test_a_lone_worker_and_many(diagnostician: Make, workers: int) -> None:
    told = watch(diagnostician(workers), frames(workers, Run(0.0, 45.0, 5.0), Run(65.0, 150.0, 5.0, 200)), workers)
    restart = only(told)
    who = "worker:0" if workers == 1 else "64 workers"
    assert restart.subject == ("worker:0" if workers == 1 else "cluster")
    assert re.fullmatch(rf"restart of {who} cost 2\d s with \d+ repeated steps; as fast as before.*", restart.sentence)


def test_a_long_time_without_a_step_is_not_the_restarts_cost(diagnostician: Make) -> None:
    died = Run(0.0, 90.0, stops=False)
    told = watch(diagnostician(2), frames(2, died, Run(690.0, 900.0, first=1700, start=686.0)), 2)
    assert re.fullmatch(
        r"restart of 2 workers, after 596 s without a step, cost [78]\.\d s with \d+ repeated steps; as fast as before",
        only(told).sentence,
    )


def test_stopped_and_started_hours_later_the_time_between_is_no_cost(diagnostician: Make) -> None:
    told = watch(diagnostician(2), frames(2, Run(0.0, 90.0), Run(4690.0, 4900.0, first=1700, start=4686.0)), 2)
    assert re.fullmatch(
        r"restart of 2 workers, after 1 h 16 m without a step, cost \d\.\d s with .*; as fast as before",
        only(told).sentence,
    )


def test_without_a_checkpoint_the_cost_is_a_forecast(diagnostician: Make) -> None:
    told = watch(diagnostician(2), frames(2, Run(0.0, 150.0), Run(170.0, 400.0)), 2)
    restart = only(told)
    found = re.fullmatch(
        r"restart of 2 workers costs some (\d+) s until ([\d,]+) more steps are repeated; as fast as before",
        restart.sentence,
    )
    assert found is not None, restart.sentence
    assert int(found[1]) == pytest.approx(20 + 150, abs=3)
    assert int(found[2].replace(",", "")) == pytest.approx((150 - 61) * 19.7, rel=0.02)


def test_steps_without_numbers_cost_at_least_so_much(diagnostician: Make) -> None:
    told = watch(diagnostician(2), frames(2, Run(0.0, 90.0, numbered=False), Run(120.0, 300.0, numbered=False)), 2)
    assert re.fullmatch(r"restart of 2 workers cost at least 30 s; as fast as before", only(told).sentence)


def test_other_work_is_not_compared(diagnostician: Make) -> None:
    told = watch(diagnostician(2), frames(2, Run(0.0, 90.0), Run(120.0, 300.0, 10.0, 1800, batch=128)), 2)
    assert only(told).sentence.endswith("; not compared with before: batch 128, before 64")


def test_two_restarts_before_the_first_is_measured_are_told_together(diagnostician: Make) -> None:
    runs = (
        Run(0.0, 90.0, slow=(Slow(1, 1.4, begin=30.0),)),
        Run(120.0, 140.0, first=1600),
        Run(160.0, 400.0, first=1900),
    )
    told = watch(diagnostician(2), frames(2, *runs), 2)
    restart = only(told)
    assert restart.sentence.startswith("2 restarts of 2 workers gained ")
    assert restart.evidence["expected"] == pytest.approx(0.29, abs=0.04)
    assert restart.evidence["lost_seconds"] == pytest.approx(30 + 20 + 4, abs=6)
    assert restart.begin == pytest.approx(CONSOLE + 90.0, abs=0.3)


def test_a_restart_soon_after_the_begin_has_nothing_to_be_compared_with(diagnostician: Make) -> None:
    told = watch(diagnostician(2), frames(2, Run(0.0, 20.0), Run(40.0, 200.0, first=380)), 2)
    assert only(told).sentence.endswith("; not compared with before: too few steps before")


def test_a_restart_that_makes_no_step_is_not_told_and_one_that_ends_early_neither(diagnostician: Make) -> None:
    runs = Run(0.0, 90.0), Run(500.0, 600.0)
    assert watch(diagnostician(2), frames(2, *runs, seconds=300), 2) == []
    assert watch(diagnostician(2), frames(2, Run(0.0, 90.0), Run(120.0, 150.0), seconds=260), 2) == []


@pytest.mark.parametrize("late", [95, 125, 140])
def test_a_console_that_connects_later_knows_nothing_of_before(diagnostician: Make, late: float) -> None:
    assert watch(diagnostician(2), frames(2, Run(0.0, 90.0), Run(120.0, 400.0)), 2, late) == []


def test_steps_that_nobody_told_of_leave_it_unsaid(diagnostician: Make) -> None:
    observer = diagnostician(2)
    told = [(task, each) for task, each in frames(2, Run(0.0, 90.0), Run(120.0, 400.0, first=1700))]
    found = []
    for second in range(1, 191):
        for task, each in told[2 * second - 2 : 2 * second]:
            if not 80 < second <= 125:
                observer.observe(task, each)
        found += [each for each in observer.diagnose(CONSOLE + second).diagnoses if each.kind == "restart"]
    assert found == []


@pytest.mark.parametrize("shift", [-3600.0, 3600.0, -20.0])
def test_a_clock_that_is_set_meanwhile_leaves_the_cost_unknown(diagnostician: Make, shift: float) -> None:
    runs = Run(0.0, 90.0, slow=(Slow(1, 1.4, begin=30.0),)), Run(120.0, 400.0, first=1700, shift=shift)
    restart = only(watch(diagnostician(2), frames(2, *runs), 2))
    assert re.fullmatch(
        r"restart of 2 workers.* gained \d+% \(\d+% expected\); what it cost is not known: the clocks of .* disagree",
        restart.sentence,
    )


def test_a_training_that_has_ended_well_is_followed_by_another_one(diagnostician: Make) -> None:
    observer, found = diagnostician(2), []
    for task, each in frames(2, Run(0.0, 70.0), Run(100.0, 250.0, start=96.0)):
        if each.status.exit is not None:
            each = replace(each, status=replace(each.status, exit=replace(each.status.exit, code=0, requested=False)))
        observer.observe(task, each)
        if task == "worker:1":
            found += [one for one in observer.diagnose(each.at).diagnoses if one.kind == "restart"]
    assert found == []


def test_noise_is_told_where_it_may_hide_a_difference(diagnostician: Make) -> None:
    noise = Noise(0.15, memory=0.95)
    told = watch(
        diagnostician(2), frames(2, Run(0.0, 90.0, noise=noise), Run(120.0, 300.0, first=1900, noise=noise)), 2
    )
    assert re.search(r"as fast as before \(to within \d+%\)$", only(told).sentence)


# ParameterServerStrategy: the chief reports the steps of each worker.


@dataclass(frozen=True)
class Own:
    """Time in which a worker makes steps at its own pace, each `step` seconds long."""

    begin: float
    end: float
    step: float
    attempt: int = 1
    start: float = 0.0
    """Start of its process."""


def served(
    workers: dict[int, tuple[Own, ...]], chiefs: tuple[tuple[float, float], ...], seconds: int
) -> Iterator[tuple[float, list[tuple[str, Frame]]]]:
    """Yield (second, frames): of a chief that runs in these times, of a server and of workers."""
    for second in range(1, seconds + 1):
        at = float(second)
        generation = 1 + sum(1 for _, end in chiefs[:-1] if end + 2 <= at)
        begin, end = chiefs[generation - 1]
        batches, found = [], []
        for worker, times in workers.items():
            now = max((each for each in times if each.start <= at), key=lambda each: each.begin)
            is_up = at <= now.end
            status = running(1, now.attempt, now.start) if is_up else ended(1, now.attempt, now.end)
            found.append((f"worker:{worker}", Frame(second, CONSOLE + at, status)))
            since = max(begin, now.begin)
            numbers = [
                number
                for number in range(int((at - since) / now.step) + 2)
                if at - 1 < since + (number + 1) * now.step <= min(at, end, now.end)
            ]
            if numbers:
                batches.append(paced(worker, generation, since, now.step, numbers))
        status = (
            running(generation, 1, chiefs[generation - 2][1] + 2 if generation > 1 else 0.0)
            if at <= end
            else ended(generation, 1, end)
        )
        probe = ProbeStatus(ProbeState.MEASURING, strategy="ParameterServerStrategyV2", examples_per_step=64)
        chief = Frame(second, CONSOLE + at, status, probe if at <= end else None, steps=tuple(batches))
        yield at, [("chief:0", chief), ("ps:0", Frame(second, CONSOLE + at, running(1, 1, 0.0))), *found]


def running(generation: int, attempt: int, started: float) -> TaskStatus:
    return TaskStatus(TaskState.RUNNING, generation, attempt, 1, CONSOLE + started)


def ended(generation: int, attempt: int, at: float) -> TaskStatus:
    return replace(
        running(generation, attempt, 0.0), state=TaskState.EXITED, exit=Exit(None, 15, CONSOLE + at, requested=True)
    )


def paced(worker: int, generation: int, since: float, step: float, numbers: list[int]) -> StepBatch:
    parts = {"update": 0.1, "host": 0.05, "input": 0.15, "compute": 0.7}
    return StepBatch(
        generation,
        1,
        "chief:0",
        f"worker:{worker}",
        range(numbers[0], numbers[-1] + 1),
        array("d", [CONSOLE + since + (number + 1) * step for number in numbers]),
        **{name: array("f", [share * step] * len(numbers)) for name, share in parts.items()},  # type: ignore[arg-type]
        reduce=array("f"),
    )


def watch_served(
    spec: ClusterSpec, workers: dict[int, tuple[Own, ...]], chiefs: tuple[tuple[float, float], ...], seconds: int
) -> list[tuple[float, Diagnosis]]:
    observer, found = Diagnostician(spec), []
    for task in spec.tasks:
        observer.note_link(str(task), True, 0.0)
    for at, told in served(workers, chiefs, seconds):
        for task, each in told:
            observer.observe(task, each)
        found += [(at, each) for each in observer.diagnose(CONSOLE + at).diagnoses if each.kind == "restart"]
    return found


@pytest.fixture
def parameter_servers(cluster: Callable[..., ClusterSpec]) -> ClusterSpec:
    return cluster(4, chief=["10.0.1.1:2222"], ps=["10.0.1.2:2222"])


def test_one_worker_at_its_own_pace_costs_its_share_alone(parameter_servers: ClusterSpec) -> None:
    quick = (Own(0.0, 999.0, 0.1),)
    workers = dict.fromkeys(range(3), quick) | {
        3: (Own(0.0, 100.0, 0.3), Own(140.0, 999.0, 0.1, attempt=2, start=102.0))
    }
    restart = only(watch_served(parameter_servers, workers, ((0.0, 999.0),), 230))
    assert restart.subject == "worker:3" and restart.sentence.startswith("restart of worker:3 gained 20% (")
    assert restart.evidence["expected"] == pytest.approx(0.2, abs=0.02)
    # Of 33.3 steps a second the others made 30.
    assert restart.evidence["lost_seconds"] == pytest.approx(40 * 0.1, rel=0.1)


def test_the_restart_of_a_chief_stops_all_workers(parameter_servers: ClusterSpec) -> None:
    workers = dict.fromkeys(range(4), (Own(0.0, 999.0, 0.1),))
    restart = only(watch_served(parameter_servers, workers, ((0.0, 100.0), (120.0, 999.0)), 230))
    assert restart.sentence == "restart of chief:0 cost at least 20 s; as fast as before"


def test_a_worker_that_was_gone_long_before_has_no_part_in_a_restart(parameter_servers: ClusterSpec) -> None:
    quick = (Own(0.0, 999.0, 0.1),)
    again = (Own(0.0, 130.0, 0.1), Own(150.0, 999.0, 0.1, attempt=2, start=132.0))
    workers = {0: quick, 1: (Own(0.0, 60.0, 0.1),), 2: quick, 3: again}
    restart = only(watch_served(parameter_servers, workers, ((0.0, 999.0),), 230))
    assert restart.sentence.startswith("restart of worker:3 cost ") and restart.sentence.endswith("; as fast as before")
    assert restart.evidence["rate_before"] == pytest.approx(30.0, rel=0.02)
    assert restart.evidence["lost_seconds"] == pytest.approx(20 / 3, rel=0.1)


def test_who_ends_after_a_restart_is_no_slowness_of_it(parameter_servers: ClusterSpec) -> None:
    workers = dict.fromkeys(range(3), (Own(0.0, 999.0, 0.1),)) | {3: (Own(0.0, 160.0, 0.1),)}
    restart = only(watch_served(parameter_servers, workers, ((0.0, 100.0), (120.0, 999.0)), 250))
    assert restart.sentence == (
        "restart of chief:0 cost at least 20 s; not compared with before: worker:3 does not run any more"
    )
