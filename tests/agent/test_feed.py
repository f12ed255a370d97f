import asyncio

from tfscale.agent.feed import RECENT, Feed
from tfscale.core.records import Frame, TaskState, TaskStatus


def frame(sequence: int) -> Frame:
    return Frame(sequence, float(sequence), TaskStatus(TaskState.RUNNING))


async def test_each_watcher_gets_every_frame_in_order() -> None:
    feed = Feed()
    with feed.watch() as one, feed.watch() as other:
        for number in range(3):
            feed.publish(frame(number))
        feed.close()
        assert [each.sequence async for each in one] == [0, 1, 2]
        assert [each.sequence async for each in other] == [0, 1, 2]


async def test_a_slow_watcher_loses_the_oldest_and_hears_how_many() -> None:
    feed = Feed(limit=2)
    with feed.watch() as watcher:
        for number in range(5):
            feed.publish(frame(number))
        feed.close()
        assert [(each.sequence, each.dropped) async for each in watcher] == [(3, 3), (4, 0)]


async def test_a_new_watcher_gets_the_last_minute_once() -> None:
    feed = Feed()
    for number in range(RECENT + 10):
        feed.publish(frame(number))
    with feed.watch() as watcher:
        feed.publish(frame(1000))
        feed.close()
        assert [each.sequence for each in watcher.recent] == list(range(10, RECENT + 10))
        assert [each.sequence async for each in watcher] == [1000]


async def test_a_watcher_waits_for_the_next_frame() -> None:
    feed = Feed()
    with feed.watch() as watcher:
        waiting = asyncio.create_task(anext(aiter(watcher)))
        await asyncio.sleep(0)
        assert not waiting.done()
        feed.publish(frame(7))
        assert (await waiting).sequence == 7


async def test_a_watcher_that_left_gets_nothing() -> None:
    feed = Feed()
    with feed.watch() as watcher:
        pass
    feed.publish(frame(1))
    watcher.close()
    assert [each async for each in watcher] == []
