"""Paths between the GPUs of a host: NVLink, or the nearest part that both share on the way to the CPUs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from tfscale.agent.telemetry.nvml_call import ask

_NVLINK = "NVLink"
_COMMON = {
    0: "board",
    10: "PCIe switch",
    20: "PCIe switches",
    30: "PCIe host bridge",
    40: "NUMA node",
    50: "bus between sockets",
}
"""Names of NVML's nvmlGpuTopologyLevel_t."""
_ORDER = (_NVLINK, *_COMMON.values())
"""Ways, the fastest first."""


def ways_of(nvml: Any, gpus: Sequence[tuple[int, Any]]) -> list[str]:
    """Return for each GPU, given as index and handle, its paths to the others: `NVLink with 1-3, NUMA node with 4`.

    A path that the driver does not tell is left out. A single GPU has none.
    """
    return [_ways(nvml, handle, [other for other in gpus if other[0] != index]) for index, handle in gpus]


def _ways(nvml: Any, handle: Any, others: Sequence[tuple[int, Any]]) -> str:
    reached: dict[str, list[int]] = {}
    for index, other in others:
        if (way := _way(nvml, handle, other)) is not None:
            reached.setdefault(way, []).append(index)
    return ", ".join(f"{way} with {_numbers(reached[way])}" for way in _ORDER if way in reached)


def _way(nvml: Any, one: Any, other: Any) -> str | None:
    linked = ask(nvml, nvml.nvmlDeviceGetP2PStatus, one, other, nvml.NVML_P2P_CAPS_INDEX_NVLINK)
    if linked == nvml.NVML_P2P_STATUS_OK:
        return _NVLINK
    return _COMMON.get(ask(nvml, nvml.nvmlDeviceGetTopologyCommonAncestor, one, other))


def _numbers(indices: Sequence[int]) -> str:
    """Return rising numbers with ranges: `0, 2-4`."""
    starts = [indices[0], *(new for old, new in pairwise(indices) if new != old + 1)]
    ends = [*(old for old, new in pairwise(indices) if new != old + 1), indices[-1]]
    return ", ".join(
        f"{first}" if first == last else f"{first}-{last}" for first, last in zip(starts, ends, strict=True)
    )
