"""`predict` under several replicas: which replica saw which examples, and that each is there once and in its place."""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path

import pytest
from compat import in_scope
from example_programs import KERAS, SLOW_KERAS

Shares = dict[str, list[tuple[int, int]]]
"""By `strategy|number of examples`: replica and number of examples, in the order of the examples."""


def shares(folder: Path, tasks: str, keras: str, monkeypatch: pytest.MonkeyPatch) -> Shares:
    out = folder / "found.json"
    in_scope.run(folder, "predicts", tasks, keras, [out], monkeypatch)
    found = json.loads(out.read_text())
    for name, pairs in found.items():
        # Each example once, in the order in which they came.
        assert [number for number, _ in pairs] == list(range(int(name.partition("|")[2]))), (name, pairs)
    return {
        name: [(replica, len(list(group))) for replica, group in groupby(pairs, key=lambda pair: pair[1])]
        for name, pairs in found.items()
    }


WHOLE_BY_2, WHOLE_BY_3 = [(0, 4), (1, 4)], [(0, 3), (1, 3), (2, 2)]
BY_2 = {
    16: [*WHOLE_BY_2, *WHOLE_BY_2],
    11: [*WHOLE_BY_2, (0, 2), (1, 1)],
    10: [*WHOLE_BY_2, (0, 1), (1, 1)],
    9: [*WHOLE_BY_2, (0, 1)],
}
"""By number of examples, in batches of 8; of a last batch of 1 the second replica sees none."""
BY_3 = {
    16: [*WHOLE_BY_3, *WHOLE_BY_3],
    11: [*WHOLE_BY_3, (0, 1), (1, 1), (2, 1)],
    10: [*WHOLE_BY_3, (0, 1), (1, 1)],
    9: [*WHOLE_BY_3, (0, 1)],
}
ALL_BY_ONE = {number: [(0, number)] for number in BY_2}
ONE_HOST = {"one-device": ALL_BY_ONE, "mirrored": BY_2, "mirrored, 3": BY_3, "central-storage": BY_2}


def by_name(expected: dict[str, dict[int, list[tuple[int, int]]]]) -> Shares:
    return {f"{name}|{number}": parts for name, by_number in expected.items() for number, parts in by_number.items()}


@pytest.mark.parametrize("keras", SLOW_KERAS)
def test_replicas_of_one_host_share_each_batch_and_an_uneven_last_one(
    keras: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert shares(tmp_path, "one host", keras, monkeypatch) == by_name(ONE_HOST)


@pytest.mark.matrix
@pytest.mark.parametrize("keras", list(KERAS))
@pytest.mark.parametrize(("tasks", "expected"), [("multi-worker", BY_2), ("parameter-server", ALL_BY_ONE)])
def test_workers_share_each_batch_and_a_parameter_servers_chief_predicts_alone(
    tasks: str, expected: dict[int, list[tuple[int, int]]], keras: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert shares(tmp_path, tasks, keras, monkeypatch) == by_name({tasks: expected})
