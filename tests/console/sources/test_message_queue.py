"""Messages of many streams: handled together and in order, and only so many may wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from tfscale.console.sources import message_queue as module
from tfscale.console.sources.message_queue import MessageQueue


class Taker:
    def __init__(self) -> None:
        self.taken: list[tuple[bytes, float]] = []

    async def take(self, data: bytes) -> None:
        self.taken.append((data, asyncio.get_running_loop().time()))


@pytest.fixture
async def queue() -> AsyncIterator[MessageQueue]:
    made = MessageQueue(0.05)
    job = asyncio.create_task(made.run())
    yield made
    job.cancel()


async def test_all_that_came_is_taken_together_and_the_next_with_the_next(queue: MessageQueue) -> None:
    begin, taker = asyncio.get_running_loop().time(), Taker()
    for data, after in ((b"first", 0.0), (b"second", 0.02), (b"late", 0.06)):
        await asyncio.sleep(after)
        await queue.put(taker.take, data)
    await queue.taken()
    (first, at), (second, beside), (late, after) = taker.taken
    assert (first, second, late) == (b"first", b"second", b"late")
    assert beside - at < 0.02 < 0.05 <= at - begin < after - begin - 0.04


async def test_of_more_than_a_bunch_nothing_is_lost_and_others_have_their_turn_between(queue: MessageQueue) -> None:
    taker, turns = Taker(), 0
    for number in range(100):
        await queue.put(taker.take, b"%d" % number)
    waiting = asyncio.create_task(queue.taken())
    while not waiting.done():
        turns += bool(taker.taken)
        await asyncio.sleep(0)
    assert [int(data) for data, _ in taker.taken] == list(range(100))
    assert turns >= 100 // module._BUNCH


async def test_who_brings_too_much_waits_until_it_is_taken(
    queue: MessageQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LIMIT", 10)
    taker = Taker()
    for _ in range(2):
        await asyncio.wait_for(queue.put(taker.take, bytes(8)), 0.01)
    await queue.put(taker.take, b"third")
    assert len(taker.taken) == 2
    await queue.taken()
    assert taker.taken[-1][0] == b"third"


async def test_nothing_is_waited_for_where_nothing_was_put(queue: MessageQueue) -> None:
    await asyncio.wait_for(queue.taken(), 0.01)
