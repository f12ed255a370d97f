"""Read timeouts: a silent agent is given up, but not while the console itself was held up."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tfscale.console.sources.read_timeout import ReadTimeout


@asynccontextmanager
async def read_timeout(patience: float) -> AsyncIterator[ReadTimeout]:
    watching = ReadTimeout(patience)
    job = asyncio.create_task(watching.run())
    try:
        yield watching
    finally:
        job.cancel()


async def test_a_wait_ends_after_its_patience() -> None:
    async with read_timeout(0.2) as watching:
        begin = time.monotonic()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(None) as limit:
                watching.begin(limit)
                await asyncio.sleep(60.0)
        assert 0.15 < time.monotonic() - begin < 30.0


async def test_what_was_said_in_time_ends_no_wait() -> None:
    async with read_timeout(0.2) as watching, asyncio.timeout(None) as limit:
        watching.begin(limit)
        await asyncio.sleep(0.05)
        watching.end(limit)
        await asyncio.sleep(0.5)


async def test_time_in_which_the_console_did_not_listen_does_not_count() -> None:
    async with read_timeout(0.3) as watching, asyncio.timeout(None) as limit:
        watching.begin(limit)
        await asyncio.sleep(0)
        time.sleep(0.8)  # noqa: ASYNC251  # that is what is tested
        await asyncio.sleep(0.1)
