"""Waits of tests for a condition, and not for a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from textual.app import App

PATIENCE = 120.0
"""Seconds to wait on a machine that has other work as well."""
TWO_FRAMES = 0.035
"""Seconds of two frames: Textual draws changes 60 times a second."""


async def until(what: Callable[[], object], pause: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
    """Wait until something holds; a screen goes on meanwhile if `pause` is its pilot's.

    Raises AssertionError where it does not come to it.
    """
    deadline = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < deadline
        await pause(0.01)


async def settled(pilot: Any) -> None:
    """Wait until the first snapshot is drawn, and what changes its place a message later has it."""
    await until(lambda: pilot.app.cluster.snapshot is not None, pilot.pause)
    await pilot.pause()
    await still(pilot)


def picture(app: App[Any]) -> object:
    """Return all cells of the screen, with their colours."""
    return [list(strip) for strip in app.screen._compositor.render_strips()]


async def still(pilot: Any) -> object:
    """Return the picture once it stays the same. Raises AssertionError where it never does."""
    deadline = time.monotonic() + PATIENCE
    before: object = None
    while (now := picture(pilot.app)) != before:
        assert time.monotonic() < deadline
        before = now
        await pilot.pause(TWO_FRAMES)
    return now
