"""Event loop whose time is a number: it passes at once, and each run with one seed is the same."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Mapping
from typing import Any


class _NoFiles(selectors.BaseSelector):
    """Selector that lets the time pass instead of waiting."""

    def __init__(self) -> None:
        self.now = 0.0
        self._keys: dict[int, selectors.SelectorKey] = {}

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        key = selectors.SelectorKey(fileobj, fileobj, events, data)  # asyncio gives the descriptor itself
        self._keys[key.fd] = key
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._keys.pop(fileobj)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        assert timeout is not None, "all wait for ever"
        self.now += max(timeout, 0.0)
        return []

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._keys


class VirtualLoop(asyncio.SelectorEventLoop):
    """Event loop that begins at 0 s and waits for nothing."""

    def __init__(self) -> None:
        self._no_files = _NoFiles()
        super().__init__(self._no_files)

    def time(self) -> float:
        return self._no_files.now
