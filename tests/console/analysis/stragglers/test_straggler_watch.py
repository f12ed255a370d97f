from collections.abc import Callable

import numpy as np
import pytest
from phase_simulation import Noise, Simulation
from tfscale.console.analysis.steps.aligned_steps import AlignedSteps
from tfscale.console.analysis.stragglers.straggler_rule import Rule
from tfscale.console.analysis.stragglers.straggler_watch import StragglerWatch
from tfscale.console.sources.simulation.step_phases import Slow
from tfscale.core.records.diagnosis import Diagnosis

Watch = Callable[[Simulation], list[tuple[str, float, float]]]

WHITE, QUIET = Noise(0.05), Noise(0.02)
DRIFTING = Noise(0.10, memory=0.8)
STICKY = Noise(0.15, memory=0.95)
BURSTS = Noise(0.05, memory=0.3, bursts=0.02, burst_seconds=1.5)


@pytest.mark.parametrize("noise", [QUIET, WHITE, Noise(0.15), DRIFTING, STICKY, BURSTS], ids=str)
@pytest.mark.parametrize(("workers", "rate"), [(2, 10.0), (2, 50.0), (3, 20.0), (8, 5.0)])
def test_nobody_is_named_among_equal_workers(names: Watch, noise: Noise, workers: int, rate: float) -> None:
    assert names(Simulation(workers, rate, 120.0, noise, seed=7)) == []


@pytest.mark.parametrize(
    ("slow", "workers", "rate", "noise"),
    [
        (Slow(1, extra=0.060), 2, 20.0, WHITE),
        (Slow(1, extra=0.030, phase="input", begin=30.0), 2, 20.0, WHITE),
        (Slow(0, ratio=1.3, begin=30.0), 2, 20.0, WHITE),
        (Slow(0, ratio=1.3, begin=30.0), 2, 10.0, Noise(0.05, 0.5)),
        (Slow(2, ratio=1.2, begin=30.0), 3, 50.0, QUIET),
        (Slow(5, ratio=1.2, begin=30.0), 8, 20.0, WHITE),
        (Slow(5, ratio=2.0, begin=30.0), 8, 20.0, DRIFTING),
    ],
    ids=str,
)
def test_the_slow_one_is_named_within_the_window_and_two_seconds(
    names: Watch, slow: Slow, workers: int, rate: float, noise: Noise
) -> None:
    ((subject, at, begin),) = names(Simulation(workers, rate, 60.0, noise, (slow,), seed=3))
    assert subject == f"worker:{slow.worker}"
    assert at <= slow.begin + Rule().window(workers) + 2.0
    assert begin == pytest.approx(slow.begin, abs=2.0)


@pytest.mark.parametrize("begins", [(30.0, 30.0), (30.0, 60.0)])
@pytest.mark.parametrize("rate", [1.0, 20.0])
def test_two_are_named_as_fast_as_one(names: Watch, begins: tuple[float, float], rate: float) -> None:
    pair = tuple(Slow(column, 1.35, begin=begin) for column, begin in zip((2, 5), begins, strict=True))
    window = max(Rule().window(8), 10 / rate)
    found = names(Simulation(8, rate, 110.0, Noise(0.03), pair, seed=6))
    assert {subject: at <= begin + window + 4 for (subject, at, _), begin in zip(found, begins, strict=True)} == {
        "worker:2": True,
        "worker:5": True,
    }


def test_half_of_the_workers_are_named_with_one_cost_which_is_not_nothing() -> None:
    found = diagnose(StragglerWatch(), aligned(steady(1.0, 1.4, 1.0, 1.4)))
    assert {each.subject for each in found} == {"worker:1", "worker:3"}
    (told,) = {each.evidence["slowdown"] for each in found}
    assert told == pytest.approx((1.4 * 0.05 + 0.01) / (0.05 + 0.01), rel=0.05)


def test_what_noise_hides_in_one_window_shows_in_a_longer_one(names: Watch) -> None:
    ((subject, at, _),) = names(Simulation(2, 5.0, 120.0, Noise(0.15), (Slow(1, 1.25, begin=40.0),), seed=5))
    assert subject == "worker:1"
    assert 52.0 < at < 110.0


def aligned(lag: np.ndarray, reduce: float = 0.01) -> AlignedSteps:
    """Return steps of these (k, n) lags, all of it compute; the collective takes `reduce` seconds."""
    wait = lag.max(axis=1, keepdims=True) - lag
    phases = np.stack([lag * 0, lag * 0, lag * 0, lag, wait + reduce]).astype(np.float32)
    end = np.cumsum(lag.max(axis=1) + reduce)
    subjects = tuple(f"worker:{column}" for column in range(lag.shape[1]))
    return AlignedSteps(subjects, np.arange(len(lag)), end, phases)


def diagnose(watch: StragglerWatch, steps: AlignedSteps) -> list[Diagnosis]:
    """Show the watch the steps that are news to it, of all that are kept."""
    return watch.diagnose(steps.after(watch.follow(steps.subjects)), steps.since)


def steady(*ratios: float, seconds: float = 30.0) -> np.ndarray:
    random, rows = np.random.default_rng(1), int(seconds / 0.06)
    return 0.05 * np.array(ratios) * np.exp(0.02 * random.normal(size=(rows, len(ratios))))


def test_the_sentence_says_who_since_when_in_which_phase_and_what_it_costs() -> None:
    (straggler,) = diagnose(StragglerWatch(), aligned(steady(1.0, 1.0, 2.2, 1.0)))
    assert straggler.subject == "worker:2"
    assert straggler.severity == "critical"
    assert straggler.sentence.startswith("worker:2 has been slow since ")
    assert ": compute takes " in straggler.sentence and straggler.sentence.endswith(". The cluster loses 49%.")
    assert straggler.evidence["phase"] == "compute"
    assert straggler.evidence["excess"] == pytest.approx(0.060, rel=0.05)


def test_a_slowness_that_is_older_than_the_known_steps_is_told_so() -> None:
    slow_throughout, later = aligned(steady(1.0, 1.0, 2.2, 1.0)), steady(1.0, 1.0, 1.0, 1.0)
    later[300:, 2] *= 2.2
    told = [
        diagnose(StragglerWatch(), steps)[0]
        for steps in (slow_throughout, slow_throughout.after(99), aligned(later).after(99))
    ]
    assert [each.began_earlier for each in told] == [False, True, False]
    assert ["since before " in each.sentence for each in told] == [False, True, False]


def test_two_equally_slow_ones_are_both_named() -> None:
    found = diagnose(StragglerWatch(), aligned(steady(1.0, 1.4, 1.0, 1.4, 1.0, 1.0)))
    assert {each.subject for each in found} == {"worker:1", "worker:3"}


def test_a_slowdown_that_costs_the_step_nothing_is_not_named() -> None:
    assert diagnose(StragglerWatch(), aligned(steady(1.0, 1.5), reduce=2.0)) == []


def test_a_gross_slowdown_is_named_within_the_window_though_a_neighbour_slows_its_peer_meanwhile() -> None:
    """A window that holds one such rise and fall tells next to nothing of how far noise wanders."""
    lag = steady(1.0, 7.0, seconds=2.0)
    end = np.cumsum(lag.max(axis=1) + 0.01)
    lag[(end >= 4.0) & (end < 7.0), 0] *= 1.5
    shown = aligned(lag[: np.searchsorted(end, Rule().window(2) + 1.5)])
    assert [each.subject for each in diagnose(StragglerWatch(), shown)] == ["worker:1"]


def test_it_ends_when_the_worker_is_as_fast_again_and_after_a_restart() -> None:
    watch, slow, equal = StragglerWatch(), steady(1.0, 1.5), steady(1.0, 1.0)
    assert len(diagnose(watch, aligned(slow))) == 1
    assert diagnose(watch, aligned(np.concatenate([slow, equal]))) == []
    watch = StragglerWatch()
    assert len(diagnose(watch, aligned(slow))) == 1
    watch.restart({"worker:1"})
    assert diagnose(watch, aligned(slow[:50])) == []


def test_what_lasts_longer_than_the_window_and_passes_is_named_and_what_comes_again_as_slow_in_part() -> None:
    """12 s of slowness are a straggler of 12 s; three times they are one in part of its steps."""
    lag = steady(1.0, 1.0, 1.0, 1.0, seconds=120.0)
    rows = np.arange(len(lag)) * 0.06
    for begin in (30.0, 60.0, 90.0):
        lag[(rows >= begin) & (rows < begin + 12.0), 2] *= 1.5
    watch, shown, told = StragglerWatch(), aligned(lag), []
    for second in range(10, int(shown.end[-1])):
        high = int(np.searchsorted(shown.end, second))
        steps = AlignedSteps(shown.subjects, shown.sequence[:high], shown.end[:high], shown.phases[:, :high])
        told += [(second, each) for each in diagnose(watch, steps) if each.kind == "straggler"]
    begin, end = shown.end[np.searchsorted(rows, [30.0, 42.0])]
    assert {each.subject for _, each in told} == {"worker:2"}
    assert [each.begin for _, each in told] == pytest.approx([begin] * len(told), abs=0.5)
    assert told[0][0] <= begin + 7
    assert end <= max(second for second, _ in told if second < 60) <= end + 5
    in_part = [each.sentence for second, each in told if second >= 60]
    assert in_part and all("(1.2x)" in sentence or "(1.3x)" in sentence for sentence in in_part)


def shaken(lag: np.ndarray, seed: int, spread: float = 0.04) -> np.ndarray:
    return lag * np.exp(np.random.default_rng(seed).normal(0.0, spread, lag.shape))


def names_over_time(steps: AlignedSteps) -> list[tuple[int, set[str]]]:
    """Return who is named, second by second."""
    watch, told = StragglerWatch(), []
    for second in range(1, int(steps.end[-1])):
        high = int(np.searchsorted(steps.end, second))
        known = AlignedSteps(steps.subjects, steps.sequence[:high], steps.end[:high], steps.phases[:, :high])
        told.append((second, {each.subject for each in diagnose(watch, known) if each.kind == "straggler"}))
    return told


def test_two_kinds_of_hardware_name_nobody_and_hide_nobody_who_becomes_slow() -> None:
    """The slower half of 32 takes 5 % longer for good; later one of the quicker half takes 1.2 times as long."""
    lag = shaken(steady(*[1.0] * 16, *[1.05] * 16, seconds=100.0), seed=1)
    healthy = names_over_time(aligned(lag))
    assert set().union(*(names for _, names in healthy)) == set()
    lag[1000:, 3] *= 1.2
    slowed, onset = aligned(lag), float(aligned(lag).end[1000])
    first = next(second for second, names in names_over_time(slowed) if names)
    assert {*dict(names_over_time(slowed))[first]} == {"worker:3"} and onset < first < onset + 10


def test_stalls_that_all_have_name_nobody() -> None:
    """In 15 % of its steps each of 32 workers stands still for half a step: some have many of them in one window."""
    random = np.random.default_rng(2)
    lag = shaken(steady(*[1.0] * 32, seconds=300.0), seed=3, spread=0.03)[::6] * 6
    lag *= np.where(random.random(lag.shape) < 0.15, 1.5, 1.0)
    assert set().union(*(names for _, names in names_over_time(aligned(lag)))) == set()


def test_a_burst_at_the_start_names_nobody() -> None:
    """Another tenant takes one of two hosts for 8 s in the first minute of the run."""
    lag = shaken(steady(1.0, 1.0, seconds=60.0), seed=4, spread=0.02)
    rows = np.arange(len(lag)) * 0.06
    lag[(rows > 20.0) & (rows < 25.0), 1] *= 1.6
    assert set().union(*(names for _, names in names_over_time(aligned(lag)))) == set()


def test_somebody_who_leaves_takes_nothing_of_what_is_known_of_the_others_along() -> None:
    watch, lag = StragglerWatch(), steady(1.0, 1.0, 1.0, 1.0, 1.5, 1.0, seconds=15.0)
    assert [each.subject for each in diagnose(watch, aligned(lag))] == ["worker:4"]
    remaining = ("worker:0", "worker:1", "worker:2", "worker:4", "worker:5")
    assert watch.follow(remaining) > 200
    assert watch.follow(("worker:0", "worker:1", "worker:2")) == -1


def test_uneven_steps_of_equal_workers_are_an_imbalance_of_the_cluster() -> None:
    lag = steady(1.0, 1.0, 1.0, 1.0)
    lag[np.arange(len(lag)), np.random.default_rng(0).integers(0, 4, len(lag))] *= 1.6
    (imbalance,) = diagnose(StragglerWatch(), aligned(lag))
    assert (imbalance.kind, imbalance.subject, imbalance.severity) == ("imbalance", "cluster", "warning")


@pytest.mark.parametrize("every", [1.0, 3.0])
def test_a_straggler_that_moves_is_an_imbalance_and_nobody_is_named(every: float) -> None:
    lag = steady(1.0, 1.0, 1.0, 1.0, seconds=90.0)
    turn = (np.arange(len(lag)) * 0.1 // every).astype(int)
    lag[np.arange(len(lag)), turn * 3 % 4] *= 1.8
    watch, told = StragglerWatch(), set()
    for stop in range(100, len(lag), 20):
        told |= {(each.kind, each.subject) for each in diagnose(watch, aligned(lag[:stop]))}
    assert told == {("imbalance", "cluster")}
