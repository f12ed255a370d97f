"""Distribution by a strategy, read from stand-ins for TensorFlow's objects."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tfscale.trainer.probe.graph.distribution import distribution_of
from tfscale.trainer.probe.rows.spans import Distribution

CPUS, GPUS = ("/device:CPU:0", "/device:CPU:1"), ("/device:GPU:0", "/device:GPU:1")


def strategy(
    name: str, replicas: int, devices: tuple[str, ...], asks: str = "AUTO", bases: tuple[type, ...] = ()
) -> Any:
    options = SimpleNamespace(implementation=SimpleNamespace(value=asks))
    extended = SimpleNamespace(worker_devices=devices, _communication_options=options)
    made = type(name, bases, {})()
    made.num_replicas_in_sync, made.extended = replicas, extended
    return made


@pytest.mark.parametrize(
    ("replicas", "devices", "asks", "collective"),
    [
        (1, CPUS[:1], "RING", None),
        (2, CPUS, "NCCL", "LOCAL"),
        (2, CPUS[:1], "RING", "RING"),
        (2, CPUS[:1], "AUTO", "RING"),
        (2, CPUS[:1], "NCCL", "RING"),
        (4, GPUS, "NCCL", "NCCL"),
        (4, GPUS, "RING", "RING"),
        (4, GPUS, "AUTO", "AUTO"),
    ],
)
def test_workers_exchange_by_what_was_asked_for_where_it_can_be(
    replicas: int, devices: tuple[str, ...], asks: str, collective: str | None
) -> None:
    made = distribution_of(strategy("CollectiveAllReduceStrategy", replicas, devices, asks))
    assert made == Distribution("MultiWorkerMirroredStrategy", replicas, len(devices), collective)


def test_other_strategies_reduce_within_the_process() -> None:
    assert distribution_of(strategy("MirroredStrategy", 2, GPUS)).collective == "LOCAL"
    assert distribution_of(strategy("CentralStorageStrategyV1", 2, CPUS)).collective == "LOCAL"
    # Its replicas are the GPUs of one worker, however many workers there are.
    assert distribution_of(strategy("ParameterServerStrategyV2", 2, CPUS[:1])).collective == "LOCAL"


def test_a_subclass_is_its_base_and_a_stranger_is_itself() -> None:
    base = type("MirroredStrategy", (), {})
    assert distribution_of(strategy("MyStrategy", 2, CPUS, bases=(base,))).strategy == "MirroredStrategy"
    assert distribution_of(strategy("MyStrategy", 2, CPUS)) == Distribution("MyStrategy", 2, 2, "LOCAL")
    assert distribution_of(strategy("MyStrategy", 4, CPUS)) == Distribution("MyStrategy", 4, 2, None)


def test_the_default_strategy_is_none_and_is_read_once() -> None:
    default = strategy("_DefaultDistributionStrategy", 1, ())
    assert distribution_of(default) == Distribution()
    assert distribution_of(default) is distribution_of(default)
