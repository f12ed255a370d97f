"""Seconds of a source that follows the clock of this host."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

from tfscale.console.engine.events import SecondPassed
from tfscale.console.engine.inbox import Inbox


async def put_seconds(inbox: Inbox, clock: Callable[[], float]) -> None:
    """Put a `SecondPassed` in the inbox at every whole second, until cancelled.

    Seconds missed while the host slept are left out.
    """
    while True:
        due = math.floor(clock()) + 1.0
        await sleep_until(due, clock)
        inbox.put(SecondPassed(due))


async def sleep_until(at: float, clock: Callable[[], float]) -> None:
    """Return when the clock shows `at`, Unix seconds."""
    # The loop's clock and this one do not agree to the microsecond.
    while (remaining := at - clock()) > 0:  # noqa: ASYNC110
        await asyncio.sleep(remaining)
