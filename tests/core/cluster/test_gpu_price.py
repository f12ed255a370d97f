"""`[cost]` of the cluster file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tfscale.core.cluster.cluster_spec import ClusterError, ClusterSpec
from tfscale.core.cluster.file.cluster_file import parse_cluster
from tfscale.core.cluster.gpu_price import GpuPrice, hours_text


def parse(cost: object) -> ClusterSpec:
    document = {"cluster": {"worker": ["10.0.0.2:2222"]}, "cost": cost}
    return parse_cluster(document, name="test", where="cluster.toml", base=Path())


def test_a_price_is_kept_in_what_is_recorded() -> None:
    spec = parse({"per_gpu_hour": 2.5, "currency": "EUR"})
    again = parse_cluster(json.loads(spec.to_json()), name="x", where="x", base=Path())
    assert spec.gpu_price == again.gpu_price == GpuPrice(2.5, "EUR")
    assert parse({"per_gpu_hour": 3}).gpu_price == GpuPrice(3.0, "USD")


@pytest.mark.parametrize(
    ("cost", "says"),
    [
        ({}, "per_gpu_hour: None is not a price"),
        ({"per_gpu_hour": "2 EUR"}, "per_gpu_hour: '2 EUR' is not a price"),
        ({"per_gpu_hour": -1}, "-1 is not a price"),
        ({"per_gpu_hour": True}, "True is not a price"),
        ({"per_gpu_hour": 1, "currency": 5}, "currency: 5 is not the name of a currency"),
        ({"per_hour": 1}, "has no key 'per_hour': use one of currency, per_gpu_hour"),
        (2.5, "[cost] must be a table"),
    ],
)
def test_a_mistake_is_one_line(cost: object, says: str) -> None:
    with pytest.raises(ClusterError) as error:
        parse(cost)
    assert says in str(error.value)
    assert str(error.value).startswith("cluster.toml: [cost]")


def test_money_is_told_with_as_many_digits_as_it_deserves() -> None:
    price = GpuPrice(2.5, "EUR")
    assert [price.money(hours) for hours in (0.1, 3.9, 4.0, 4000.0)] == ["0.25 EUR", "9.75 EUR", "10 EUR", "10,000 EUR"]


def test_gpu_hours_have_two_digits_and_no_whole_one_is_left_out() -> None:
    assert [hours_text(hours) for hours in (0.07566, 0.93333, 9.97, 12.345, 99.7, 1234.5)] == [
        "0.076 GPU-h",
        "0.93 GPU-h",
        "10 GPU-h",
        "12 GPU-h",
        "100 GPU-h",
        "1,234 GPU-h",
    ]
