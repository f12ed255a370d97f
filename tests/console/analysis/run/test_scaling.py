"""Forecasts of published series, beside rules of one line, and none where nothing was measured."""

import csv
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tfscale.console.analysis.run.scaling import (
    PUBLISHED,
    bus_bandwidth,
    efficiency,
    forecast,
    last_line,
    nearest_published,
    ring_forecast,
    rings,
    same_rate,
    volume,
)

DATA = Path(__file__).parents[3] / "data"
Series = dict[str, tuple[list[float], list[float]]]
Rule = Callable[[list[float], list[float], float], float]


def read(file: str, names: tuple[str, str], devices: str, throughput: str) -> Series:
    series: Series = defaultdict(lambda: ([], []))
    for row in csv.DictReader((DATA / file).read_text().splitlines()):
        sizes, rates = series[" ".join(row[name] for name in names)]
        sizes.append(float(row[devices]))
        rates.append(float(row[throughput]))
    return dict(series)


SERIES = read("scaling_series.csv", ("source", "series"), "devices", "throughput")
TABLES = read("scaling_tables.csv", ("table", "model"), "gpus", "images_per_sec")
RULES: dict[str, Rule] = {
    "forecast": lambda sizes, rates, to: forecast(sizes, rates, to).throughput,
    "same rate": lambda sizes, rates, to: same_rate(sizes[-1], rates[-1], to),
    "line": lambda sizes, rates, to: last_line(sizes[-2], rates[-2], sizes[-1], rates[-1], to),
}


def errors(series: Series) -> dict[str, list[float]]:
    """Return the relative error of each rule at the largest size of each series, told from the smaller ones."""
    return {
        name: [rule(sizes[:-1], rates[:-1], sizes[-1]) / rates[-1] - 1 for sizes, rates in series.values()]
        for name, rule in RULES.items()
    }


def medians(series: Series) -> dict[str, float]:
    return {name: float(np.median(np.abs(values))) for name, values in errors(series).items()}


HALVES = {
    "all series": SERIES,
    "first half of them": dict(list(SERIES.items())[:15]),
    "second half of them": dict(list(SERIES.items())[15:]),
    "every other": dict(list(SERIES.items())[::2]),
    "those between": dict(list(SERIES.items())[1::2]),
    "TensorFlow's tables": TABLES,
}


@pytest.mark.parametrize("part", HALVES)
def test_no_rule_of_one_line_forecasts_published_series_better(part: str) -> None:
    found = medians(HALVES[part])
    print(f"\n{part:20} median error: " + ", ".join(f"{name} {value:.1%}" for name, value in found.items()))
    assert found["forecast"] <= min(found.values())
    assert found["forecast"] <= 0.015


def test_the_first_step_from_one_host_to_several_is_not_taken_for_contention_that_goes_on() -> None:
    """In DLPerf's series 8 devices are one host, 16 two and 32 four."""
    series = {name: each for name, each in SERIES.items() if name.startswith("DLPerf") and each[0] == [1, 8, 16, 32]}
    assert len(series) == 21
    assert medians(series)["forecast"] <= 0.015
    worst = {name: max(map(abs, values)) for name, values in errors(series).items()}
    assert worst["forecast"] <= min(worst.values()) <= 0.16


def test_the_band_holds_nearly_all_of_the_measured_largest_sizes() -> None:
    inside = []
    for name, (sizes, rates) in {**SERIES, **TABLES}.items():
        told = forecast(sizes[:-1], rates[:-1], sizes[-1])
        inside.append(told.low <= rates[-1] <= told.high)
        error = told.throughput / rates[-1] - 1
        band = f"{told.low:.1f} to {told.high:.1f}{'' if inside[-1] else '  OUTSIDE'}"
        print(f"{name[:64]:64} {sizes[-1]:4.0f} {rates[-1]:9.1f} {told.throughput:9.1f} {error:+7.1%}  {band}")
    assert (len(inside), sum(inside)) == (36, 33)


@pytest.mark.parametrize("a", [0.0, 0.02, 0.05])
def test_the_band_holds_a_cluster_that_follows_amdahls_law(a: float) -> None:
    rates = [100 * n / (1 + a * (n - 1)) for n in (1, 2, 4, 8, 16)]
    told = forecast([1, 2, 4, 8, 16], rates, 32)
    assert told.low <= 100 * 32 / (1 + a * 31) <= told.high
    if a == 0:
        assert told.throughput == pytest.approx(3200)


def test_the_band_is_narrow_for_noise_about_a_line() -> None:
    random = np.random.default_rng(3)
    sizes = np.array([1.0, 2.0, 4.0, 8.0])
    inside = 0
    for _ in range(40):
        rates = 50 * sizes * random.normal(1, 0.01, 4)
        told = forecast(sizes.tolist(), rates.tolist(), 16)
        inside += told.low <= 800 <= told.high
        assert told.high / told.low < 1.5
    assert inside >= 36


def test_two_sizes_make_no_forecast() -> None:
    with pytest.raises(ValueError, match="needs 3 measured sizes, there are 2"):
        forecast([1, 2, 2], [10, 19, 20], 4)


@pytest.mark.parametrize(
    ("name", "workers", "speedup", "share"),
    [("NMT", 8, 6, 0.75), ("Inception on ImageNet", 50, 32, 0.64), ("RankBrain, sparse", 500, 300, 0.6)],
)
def test_published_points(name: str, workers: int, speedup: float, share: float) -> None:
    point = next(each for each in PUBLISHED if each.name == name)
    assert (point.workers, point.low, point.high) == (workers, speedup, speedup)
    assert efficiency(workers, speedup * 7.0, 7.0) == pytest.approx(share)
    assert nearest_published(workers).workers == workers


def test_the_published_dense_range_holds_the_published_inception() -> None:
    dense = next(each for each in PUBLISHED if each.name == "dense models")
    inception = next(each for each in PUBLISHED if each.name.startswith("Inception"))
    assert dense.low <= inception.low <= dense.high


def test_the_ring_formula_in_whole_numbers() -> None:
    assert bus_bandwidth(8e6, 2.0, 4) == 6e6
    assert bus_bandwidth(8e6, 1.0, 2) == 8e6


def test_a_run_of_one_size_says_what_the_ring_says_of_others() -> None:
    by_bytes, by_latency = rings(lag=0.1, transfer=0.06, workers=4)
    assert by_bytes.step(4) == pytest.approx(0.16)
    assert by_latency.step(4) == pytest.approx(0.16)
    assert by_bytes.transfer(2) == pytest.approx(0.04)
    assert by_latency.transfer(2) == pytest.approx(0.02)
    told = ring_forecast(0.1, 0.06, 4, 8)
    assert told.high == pytest.approx(8 * 0.1 / 0.17)
    assert told.low == pytest.approx(8 * 0.1 / 0.24)
    assert told.throughput == told.high


def test_an_all_gather_moves_what_each_gives_to_all_others_and_grows_with_them() -> None:
    assert [volume(1.0, ranks, 1.0) for ranks in (2, 4, 8)] == [1.0, 3.0, 7.0]
    assert volume(1.0, 4, 0.5) == pytest.approx((volume(1.0, 4) + volume(1.0, 4, 1.0)) / 2)
    assert bus_bandwidth(8e6, 2.0, 4, 1.0) == 12e6
    reduced, gathered = (ring_forecast(0.1, 0.03, 4, 64, share) for share in (0.0, 1.0))
    assert reduced.throughput == pytest.approx(64 * 0.1 / (0.1 + 0.02 * 2 * 63 / 64))
    assert gathered.throughput == pytest.approx(64 * 0.1 / (0.1 + 0.01 * 63))
