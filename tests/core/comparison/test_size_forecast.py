"""Forecasts of published series, beside rules of one line."""

import csv
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tfscale.core.comparison.size_forecast import forecast, last_line, same_rate

DATA = Path(__file__).parents[2] / "data"
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
