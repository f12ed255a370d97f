"""NVLinks of one GPU: number of links, number of links that are up, and their errors."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from tfscale.agent.telemetry.nvml_call import ask

_PERIOD = 10.0
"""Seconds between two looks: up to 18 links with a state and three counters each are many calls."""


class NvLinkState(NamedTuple):
    """Reading of all links of a GPU; None where the GPU has none, or the driver does not tell."""

    links: int | None = None
    up: int | None = None
    errors: int | None = None


class NvLinks:
    """Links of one GPU that have answered at the start, with or without a cable or a switch behind them."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._nvml, self._handle = nvml, handle
        self._links = [link for link in range(nvml.NVML_NVLINK_MAX_LINKS) if self._is_up(link) is not None]
        self._counters = (
            nvml.NVML_NVLINK_ERROR_DL_REPLAY,
            nvml.NVML_NVLINK_ERROR_DL_RECOVERY,
            nvml.NVML_NVLINK_ERROR_DL_CRC_FLIT,
        )
        self._read_at = -_PERIOD
        self._newest = NvLinkState()

    def state(self) -> NvLinkState:
        """Return the reading of the last ten seconds."""
        now = time.monotonic()
        if self._links and now - self._read_at >= _PERIOD:
            self._read_at, self._newest = now, self._read()
        return self._newest

    def _read(self) -> NvLinkState:
        states = [state for link in self._links if (state := self._is_up(link)) is not None]
        errors = [count for link in self._links for count in self._errors(link)]
        return NvLinkState(len(self._links), sum(states) if states else None, sum(errors) if errors else None)

    def _is_up(self, link: int) -> bool | None:
        state = ask(self._nvml, self._nvml.nvmlDeviceGetNvLinkState, self._handle, link)
        return None if state is None else state == 1

    def _errors(self, link: int) -> list[int]:
        counts = (
            ask(self._nvml, self._nvml.nvmlDeviceGetNvLinkErrorCounter, self._handle, link, counter)
            for counter in self._counters
        )
        return [count for count in counts if count is not None]
