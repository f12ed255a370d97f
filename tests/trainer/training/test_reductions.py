"""The reduction that ran, as it is read from functions of a graph."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from tfscale.trainer.training.reductions import Reduction, reduction_of

CPU = "/job:localhost/replica:0/task:0/device:CPU:"
GPU = "/job:worker/replica:0/task:0/device:GPU:"


@dataclass
class Node:
    name: str
    op: str
    device: str = ""
    input: list[str] = field(default_factory=list)
    hint: bytes = b"auto"

    @property
    def attr(self) -> Any:
        return {"communication_hint": SimpleNamespace(s=self.hint)}


def reduced(*nodes: Node) -> Reduction:
    return reduction_of([SimpleNamespace(node_def=nodes)])


def gradients(number: int, device: str = CPU) -> list[Node]:
    return [Node(f"gradient_{index}", "MatMul", f"{device}{index}") for index in range(number)]


def test_nccl_that_was_asked_for_without_a_gpu_is_a_ring() -> None:
    collective = Node("reduce", "CollectiveReduceV2", f"{CPU}0", hint=b"nccl")
    assert reduced(collective, collective) == Reduction("ring", {"CollectiveReduceV2 on CPU": 2})


def test_a_collective_on_gpus_is_nccl_unless_a_ring_was_asked_for() -> None:
    assert reduced(Node("reduce", "CollectiveReduceV2", f"{GPU}0")).kind == "nccl"
    assert reduced(Node("reduce", "CollectiveReduceV2", f"{GPU}0", hint=b"ring")).kind == "ring"
    assert reduced(Node("reduce", "NcclAllReduce", f"{GPU}0")) == Reduction("nccl", {"NcclAllReduce on GPU": 1})


def test_a_sum_of_tensors_from_several_devices_is_a_reduction_to_one() -> None:
    total = Node("AddN", "AddN", f"{CPU}0", ["gradient_0:product:0", "gradient_1:product:0"])
    assert reduced(*gradients(2), total) == Reduction("one device", {"AddN on CPU": 1})


def test_a_sum_within_one_device_is_no_reduction() -> None:
    own = [Node("a", "MatMul", f"{CPU}1"), Node("b", "MatMul", f"{CPU}1")]
    assert reduced(*own, Node("AddN", "AddN", f"{CPU}1", ["a:product:0", "b:product:0"])) == Reduction("none")


def test_sums_on_several_devices_or_of_packed_gradients_are_a_hierarchical_copy() -> None:
    halves = [
        Node("half_0", "AddN", f"{CPU}0", ["gradient_0:product:0", "gradient_1:product:0"]),
        Node("half_1", "AddN", f"{CPU}2", ["gradient_2:product:0", "gradient_3:product:0"]),
    ]
    assert reduced(*gradients(4), *halves).kind == "hierarchical copy"
    packs = [Node(f"pack_{index}", "ConcatV2", f"{CPU}{index}") for index in range(2)]
    assert reduced(*packs, Node("AddN", "AddN", f"{CPU}0", ["pack_0", "pack_1"])).kind == "hierarchical copy"


def test_rows_of_an_embedding_are_gathered_by_the_ring() -> None:
    nodes = [Node("reduce", "CollectiveReduceV2", f"{CPU}0"), Node("rows", "CollectiveGatherV2", f"{CPU}0")]
    assert reduced(*nodes) == Reduction("ring", {"CollectiveReduceV2 on CPU": 1, "CollectiveGatherV2 on CPU": 1})


def test_updates_on_servers_reduce_nothing_and_reading_is_no_update() -> None:
    server = "/job:ps/replica:0/task:1/device:CPU:0"
    update, read = Node("update", "AssignSubVariableOp", server), Node("lookup", "ResourceGather", server)
    assert reduced(update, read) == Reduction("servers", {"AssignSubVariableOp on CPU": 1})
