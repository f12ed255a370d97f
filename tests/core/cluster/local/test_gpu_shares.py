"""Division of a host's GPUs among its tasks."""

from __future__ import annotations

import pytest
from tfscale.core.cluster.local.gpu_shares import check_gpus, chosen_gpus, divided, share_of
from tfscale.core.cluster.task import Task
from tfscale.core.errors import UsageError


def tasks(*names: str) -> list[Task]:
    return [Task.parse(name) for name in names]


@pytest.mark.parametrize(
    ("environment", "gpus"),
    [
        ({}, None),
        ({"CUDA_VISIBLE_DEVICES": ""}, ()),
        ({"CUDA_VISIBLE_DEVICES": "-1"}, ()),
        ({"CUDA_VISIBLE_DEVICES": "3, 1"}, ("3", "1")),
        ({"CUDA_VISIBLE_DEVICES": "0,-1,1"}, ("0",)),
        ({"CUDA_VISIBLE_DEVICES": "GPU-8a2f,MIG-77"}, ("GPU-8a2f", "MIG-77")),
    ],
)
def test_the_gpus_of_an_environment_are_those_that_cuda_reads(
    environment: dict[str, str], gpus: tuple[str, ...] | None
) -> None:
    assert chosen_gpus(environment) == gpus


@pytest.mark.parametrize("gpus", range(9))
@pytest.mark.parametrize("parts", range(1, 6))
def test_parts_are_even_and_have_each_gpu_once(gpus: int, parts: int) -> None:
    names = [str(number) for number in range(gpus)]
    shares = divided(names, parts)
    assert [name for share in shares for name in share] == names and len(shares) == parts
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_only_tasks_that_compute_have_gpus() -> None:
    here = tasks("ps:0", "worker:1", "chief:0", "evaluator:0", "dataworker:0")
    shares = {str(task): share_of(task, ("0", "1", "2", "3"), here) for task in here}
    assert shares == {
        "chief:0": ("0",),
        "worker:1": ("1",),
        "evaluator:0": ("2", "3"),
        "ps:0": (),
        "dataworker:0": (),
    }


def test_a_task_that_computes_alone_has_all() -> None:
    assert share_of(*tasks("worker:0"), ("4", "5"), tasks("worker:0", "ps:0")) == ("4", "5")


def test_fewer_gpus_than_tasks_that_compute_are_refused() -> None:
    with pytest.raises(UsageError, match=r"2 tasks of this host compute \(worker:0, worker:1\), and it has 1 GPU: "):
        check_gpus(("0",), tasks("worker:1", "worker:0", "ps:0"))
    check_gpus(("0",), tasks("worker:0", "ps:0"))
    check_gpus((), tasks("worker:0", "worker:1"))


def test_tasks_that_were_moved_here_share_a_gpu() -> None:
    here = tasks("worker:0", "worker:1", "worker:2")
    assert [share_of(task, ("0", "1"), here) for task in here] == [("0",), ("1",), ("0",)]
