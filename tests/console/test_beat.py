"""Who waits for a beat goes on with the others, and one that gives up holds nobody up."""

from __future__ import annotations

import asyncio

import pytest
from tfscale.console.sources.beat import Beat


async def test_all_who_wait_go_on_together_and_the_next_with_the_next() -> None:
    beat, went_on = Beat(0.05), []

    async def go(name: str, after: float) -> None:
        await asyncio.sleep(after)
        await beat.wait()
        went_on.append((name, asyncio.get_running_loop().time()))

    begin = asyncio.get_running_loop().time()
    await asyncio.gather(go("first", 0.0), go("second", 0.02), go("late", 0.08))
    (_, first), (_, second), (name, late) = went_on
    assert name == "late"
    assert second - first < 0.02 < 0.05 <= first - begin < late - begin - 0.02


async def test_one_that_gives_up_holds_nobody_up() -> None:
    beat = Beat(0.02)
    impatient, patient = asyncio.create_task(beat.wait()), asyncio.create_task(beat.wait())
    await asyncio.sleep(0)
    impatient.cancel()
    with pytest.raises(asyncio.CancelledError):
        await impatient
    await asyncio.wait_for(patient, 1)
    await asyncio.wait_for(beat.wait(), 1)
