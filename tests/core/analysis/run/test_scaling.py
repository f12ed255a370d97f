"""Forecasts of published tables and of known models, and none where nothing was measured."""

import csv
import math
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from tfscale.core.analysis.run.scaling import (
    PUBLISHED,
    bus_bandwidth,
    efficiency,
    fits,
    forecast,
    nearest_published,
    ring_forecast,
    rings,
    volume,
)

TABLES = Path(__file__).parents[3] / "data" / "scaling_tables.csv"


def published_series() -> dict[str, tuple[list[float], list[float]]]:
    series: dict[str, tuple[list[float], list[float]]] = defaultdict(lambda: ([], []))
    for row in csv.DictReader(TABLES.read_text().splitlines()):
        sizes, rates = series[f"{row['table']} {row['model']}"]
        sizes.append(float(row["gpus"]))
        rates.append(float(row["images_per_sec"]))
    return dict(series)


def test_the_largest_size_of_published_tables_is_forecast_from_the_others() -> None:
    errors: dict[str, list[float]] = defaultdict(list)
    covered = 0
    print(f"\n{'series':40} {'to':>4} {'true':>7} {'said':>7} {'error':>7}  band             model")
    for name, (sizes, rates) in published_series().items():
        told = forecast(sizes[:-1], rates[:-1], sizes[-1])
        truth = rates[-1]
        inside = told.low <= truth <= told.high
        covered += inside
        errors["chosen"].append(abs(told.throughput / truth - 1))
        for fit in fits(sizes[:-1], rates[:-1]):
            errors[fit.model].append(abs(fit.at(sizes[-1]) / truth - 1))
        print(
            f"{name:40} {sizes[-1]:4.0f} {truth:7.1f} {told.throughput:7.1f} {told.throughput / truth - 1:+7.1%}"
            f"  {told.low:7.1f}-{told.high:7.1f}  {told.model}{'' if inside else '  OUTSIDE'}"
        )
    medians = {model: float(np.median(values)) for model, values in errors.items()}
    print("median error: " + ", ".join(f"{model} {value:.1%}" for model, value in medians.items()))
    assert len(errors["chosen"]) == 7
    assert medians["chosen"] <= 0.05
    assert medians["chosen"] <= min(medians.values())
    assert covered >= 6


@pytest.mark.parametrize(("a", "b"), [(0.0, 0.0), (0.05, 0.0), (0.02, 0.001)])
def test_a_cluster_that_follows_a_model_is_recognised(a: float, b: float) -> None:
    sizes = [1.0, 2.0, 4.0, 8.0, 16.0]
    rates = [100 * n / (1 + a * (n - 1) + b * n * (n - 1)) for n in sizes]
    best = fits(sizes, rates)[0]
    assert best.error < 1e-6
    assert best.at(32.0) == pytest.approx(100 * 32 / (1 + a * 31 + b * 32 * 31), rel=1e-6)
    if b:
        peak = math.sqrt((1 - best.parameters["a"]) / best.parameters["b"])
        assert (best.model, peak) == ("usl", pytest.approx(math.sqrt((1 - a) / b), rel=1e-3))
    else:
        assert best.parameters.get("b", 0.0) == 0.0


def test_no_peak_is_invented_from_noise_about_a_line() -> None:
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
    assert (told.throughput, told.model) == (told.high, "ring")


def test_an_all_gather_moves_what_each_gives_to_all_others_and_grows_with_them() -> None:
    assert [volume(1.0, ranks, 1.0) for ranks in (2, 4, 8)] == [1.0, 3.0, 7.0]
    assert volume(1.0, 4, 0.5) == pytest.approx((volume(1.0, 4) + volume(1.0, 4, 1.0)) / 2)
    assert bus_bandwidth(8e6, 2.0, 4, 1.0) == 12e6
    reduced, gathered = (ring_forecast(0.1, 0.03, 4, 64, share) for share in (0.0, 1.0))
    assert reduced.throughput == pytest.approx(64 * 0.1 / (0.1 + 0.02 * 2 * 63 / 64))
    assert gathered.throughput == pytest.approx(64 * 0.1 / (0.1 + 0.01 * 63))
