"""The table of strategies, and the family of a program that is not in it."""

import pytest
from tfscale.core.cluster.strategy import ALONE, ASYNCHRONOUS, STRATEGIES, SYNCHRONOUS, Family, family_of, find_strategy
from tfscale.core.cluster.task import Role

WORKERS = [Role.WORKER, Role.WORKER]
SERVERS = [Role.CHIEF, Role.WORKER, Role.PS]


@pytest.mark.parametrize(
    ("name", "roles", "family"),
    [
        ("MirroredStrategy", WORKERS, ALONE),
        ("MirroredStrategyV1", WORKERS, ALONE),
        ("CollectiveAllReduceStrategy", [Role.WORKER], SYNCHRONOUS),
        ("ParameterServerStrategy", WORKERS, ASYNCHRONOUS),
        ("MyMirroredStrategy", WORKERS, SYNCHRONOUS),
        ("TPUStrategy", [Role.WORKER], ALONE),
        (None, WORKERS, SYNCHRONOUS),
        (None, [Role.CHIEF, Role.WORKER], SYNCHRONOUS),
        (None, [Role.WORKER, Role.EVALUATOR], ALONE),
        (None, SERVERS, ASYNCHRONOUS),
    ],
)
def test_the_table_decides_before_the_roles(name: str | None, roles: list[Role], family: Family) -> None:
    assert family_of(name, roles) is family


def test_a_subclass_has_the_row_of_its_base() -> None:
    found = find_strategy(["MyStrategy", "CollectiveAllReduceStrategy", "Strategy", "object"])
    assert found is not None and found.name == "MultiWorkerMirroredStrategy"
    assert find_strategy(["MyStrategy", "Strategy", "object"]) is None


def test_no_class_is_in_two_rows() -> None:
    names = [name for row in STRATEGIES for name in {row.name, *row.classes}]
    assert len(names) == len(set(names))
