"""Reduction that really ran, read from the traced functions: it may differ from the requested one.

TensorFlow warns of NCCL without a GPU and runs a ring, or reduces to one device in place of another way.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

_COLLECTIVES = ("CollectiveReduce", "CollectiveReduceV2", "CollectiveReduceV3")
_GATHERS = ("CollectiveGather", "CollectiveGatherV2")
"""Collectives of IndexedSlices, gradients of an embedding: their rows are gathered, not summed."""
_SUMS = ("AddN", "AddV2", "Add")
_UPDATES = ("Assign", "ResourceApply", "ResourceScatter", "ResourceSparseApply")
"""Begins of the names of ops that change a variable."""


@dataclass(frozen=True, slots=True)
class Reduction:
    """Way in which the replicas' gradients are summed."""

    kind: str
    """One of `ring`, `nccl`, `hierarchical copy`, `one device`, `servers`, `none`."""
    ops: dict[str, int] = field(default_factory=dict)
    """Number of ops by type and device, as in `CollectiveReduceV2 on CPU`."""


def reduction_of(functions: Iterable[Any]) -> Reduction:
    """Return the reduction in these FunctionDefs, which must be those of one training."""
    nodes = [list(function.node_def) for function in functions]
    everything = [node for each in nodes for node in each]
    if found := _count(node for node in everything if node.op == "NcclAllReduce"):
        return Reduction("nccl", found)
    if collectives := [node for node in everything if node.op in _COLLECTIVES + _GATHERS]:
        # A collective on GPUs is NCCL's unless a ring was asked for; CPUs have only the ring.
        on_gpus = all(_device(node) == "GPU" and _hint(node) != "ring" for node in collectives)
        return Reduction("nccl" if on_gpus else "ring", _count(collectives))
    if sums := [(node, sources) for each in nodes for node, sources in _sums_over_devices(each)]:
        packed = any("ConcatV2" in ops for _, ops in sums)
        several = len({node.device for node, _ in sums}) > 1
        return Reduction("hierarchical copy" if packed or several else "one device", _count(node for node, _ in sums))
    if updates := [node for node in everything if node.op.startswith(_UPDATES) and "/job:ps" in node.device]:
        return Reduction("servers", _count(updates))
    return Reduction("none")


def _count(nodes: Iterable[Any]) -> dict[str, int]:
    return dict(Counter(f"{node.op} on {_device(node) or 'any device'}" for node in nodes))


def _device(node: Any) -> str:
    """Return `GPU` for `/job:worker/replica:0/task:0/device:GPU:1`; empty where the device is not in the graph."""
    match = re.search(r"device:([A-Z]+)", node.device)
    return match[1] if match else ""


def _hint(node: Any) -> str:
    hint = node.attr["communication_hint"].s
    return hint.decode() if isinstance(hint, bytes) else str(hint)


def _sums_over_devices(nodes: Sequence[Any]) -> list[tuple[Any, set[str]]]:
    """Return each sum of tensors from different devices, with the types of the ops that made them."""
    by_name = {node.name: node for node in nodes}
    found = []
    for node in nodes:
        if node.op not in _SUMS:
            continue
        sources = [by_name[name] for each in node.input if (name := each.lstrip("^").partition(":")[0]) in by_name]
        if len({source.device for source in sources if source.device}) > 1:
            found.append((node, {source.op for source in sources}))
    return found
