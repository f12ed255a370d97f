import asyncio

from tfscale.agent.telemetry.feed import PIECE, RECENT, Feed
from tfscale.agent.telemetry.kept_frames import AFTER_STEPS, KEPT_STEPS
from tfscale.agent.wire import EncodedFrame, EncodedSteps, encode_frame
from tfscale.core.records.frame import Frame
from tfscale.core.records.milestone import Milestone
from tfscale.core.records.task_status import TaskState, TaskStatus
from tfscale.v1 import telemetry_pb2

MINUTES = 10
KEPT = 60 * MINUTES


def frame(sequence: int, steps: int = 0) -> EncodedFrame:
    sent = Frame(sequence, float(sequence), TaskStatus(TaskState.RUNNING))
    return encode_frame(sent, (EncodedSteps(steps, b""),) if steps else ())._replace(steady=float(sequence))


def read(frame: EncodedFrame) -> telemetry_pb2.Frame:
    return telemetry_pb2.Frame.FromString(frame.message)


async def test_each_watcher_gets_every_frame_in_order() -> None:
    feed = Feed(MINUTES)
    with feed.watch() as one, feed.watch() as other:
        for number in range(3):
            feed.publish(frame(number))
        feed.close()
        assert [read(each).sequence async for each in one] == [0, 1, 2]
        assert [read(each).sequence async for each in other] == [0, 1, 2]


async def test_a_slow_watcher_loses_the_oldest_and_hears_how_many() -> None:
    feed = Feed(MINUTES, limit=2)
    with feed.watch() as watcher:
        for number in range(5):
            feed.publish(frame(number))
        feed.close()
        assert [(read(each).sequence, read(each).dropped) async for each in watcher] == [(3, 3), (4, 0)]


async def test_a_new_watcher_gets_the_last_minute_once() -> None:
    feed = Feed(MINUTES)
    for number in range(RECENT + 10):
        feed.publish(frame(number))
    with feed.watch() as watcher:
        feed.publish(frame(1000))
        feed.close()
        assert [read(each).sequence for each in watcher.recent] == list(range(10, RECENT + 10))
        assert [read(each).sequence async for each in watcher] == [1000]


async def test_who_comes_back_gets_what_it_lacks_in_order_and_goes_on() -> None:
    feed = Feed(MINUTES)
    for number in range(KEPT + 100):
        feed.publish(frame(number))
    with feed.watch(since=250.0) as watcher:
        feed.publish(frame(1000))
        feed.close()
        got = [*watcher.recent, *[each async for each in watcher]]
    assert [read(each).sequence for each in got] == [*range(251, KEPT + 100), 1000]
    assert len(watcher.recent) == RECENT and not any(read(each).dropped for each in got)


async def test_ten_minutes_are_kept_and_who_lacks_nothing_gets_the_newest() -> None:
    feed = Feed(MINUTES)
    for number in range(KEPT + 100):
        feed.publish(frame(number))
    with feed.watch(since=0.0) as late, feed.watch(since=1e9) as back:
        assert read(late.recent[0]).sequence == 100
        assert [read(each).sequence for each in back.recent] == [KEPT + 99]


async def test_a_fast_program_keeps_less_time_and_no_more_memory() -> None:
    feed = Feed(MINUTES)
    for number in range(KEPT):
        feed.publish(frame(number, steps=1000))
    with feed.watch(since=0.0) as watcher:
        feed.close()
        got = [*watcher.recent, *[each async for each in watcher]]
    assert len(got) == KEPT_STEPS // 1000


async def test_however_long_a_task_hangs_the_frames_around_its_last_steps_are_kept() -> None:
    feed = Feed(1)
    for number in range(5000):
        feed.publish(frame(number, steps=10 if number < 200 else 0))
    with feed.watch(pieces_since=5000.0 - 600) as late, feed.watch(since=4990.0) as back:
        got = [read(each).sequence for piece in late.pieces() for each in piece]
        assert got == [*range(200 + AFTER_STEPS - 60, 200 + AFTER_STEPS), *range(4940, 5000)]
        assert [read(each).sequence for each in back.recent] == [*range(4991, 5000)]
    for number in range(5000, 5100):
        feed.publish(frame(number, steps=10))
    with feed.watch(pieces_since=0.0) as late:
        assert [read(each).sequence for piece in late.pieces() for each in piece] == [*range(5040, 5100)]


async def test_steps_after_a_hang_do_not_push_out_at_once_those_before_it() -> None:
    feed = Feed(1)
    for number in range(300):
        feed.publish(frame(number, steps=0 if 200 <= number < 280 else 10))
    with feed.watch(pieces_since=0.0) as late:
        got = [read(each).sequence for piece in late.pieces() for each in piece]
    assert got[0] == 175 and got[-1] == 299 and len([each for each in got if each < 200]) == 25


def test_an_agent_that_has_ended_keeps_no_frame() -> None:
    feed = Feed(MINUTES)
    feed.publish(frame(1, steps=2))
    feed.forget()
    feed.publish(frame(2, steps=2))
    assert feed.newest() is None


async def test_a_watcher_waits_for_the_next_frame() -> None:
    feed = Feed(MINUTES)
    with feed.watch() as watcher:
        waiting = asyncio.create_task(anext(aiter(watcher)))
        await asyncio.sleep(0)
        assert not waiting.done()
        feed.publish(frame(7))
        assert read(await waiting).sequence == 7


async def test_a_watcher_that_left_gets_nothing() -> None:
    feed = Feed(MINUTES)
    with feed.watch() as watcher:
        pass
    feed.publish(frame(1))
    watcher.close()
    assert [each async for each in watcher] == []


async def test_the_past_comes_in_pieces_of_some_bytes_and_then_every_new_frame() -> None:
    feed = Feed(MINUTES)
    for number in range(KEPT):
        feed.publish(frame(number)._replace(message=b"x" * (PIECE // 3)))
    with feed.watch(pieces_since=99.0) as watcher:
        pieces = list(watcher.pieces())
        feed.publish(frame(1000))
        feed.close()
        assert {len(piece) for piece in pieces} == {3, 2} and watcher.recent == ()
        assert [each.at for piece in pieces for each in piece] == [float(number) for number in range(100, KEPT)]
        assert [read(each).sequence async for each in watcher] == [1000]


def test_no_piece_holds_frames_from_before_and_after_the_clock_was_set() -> None:
    for by in (-3600.0, -1.0, 1.0, 3600.0):
        feed = Feed(MINUTES)
        for number in range(100):
            feed.publish(frame(number)._replace(at=number + (by if number >= 60 else 0.0)))
        with feed.watch(pieces_since=49.0) as watcher:
            assert [[each.steady for each in piece] for piece in watcher.pieces()] == [
                [*range(50, 60)],
                [*range(60, 100)],
            ]


def test_changes_of_a_state_are_remembered_for_longer_than_the_frames() -> None:
    feed = Feed(MINUTES)
    for number in range(2 * KEPT):
        state = TaskState.EXITED if 100 <= number < 110 else TaskState.RUNNING
        unheard = ("worker:1",) if number >= 200 else ()
        feed.publish(frame(number), Milestone(float(number), TaskStatus(state), unheard))
    with feed.watch(pieces_since=0.0) as watcher:
        assert watcher.begin == KEPT
        assert [milestone.at for milestone in feed.milestones(watcher.begin)] == [0.0, 100.0, 110.0, 200.0]


def test_a_late_watcher_gets_as_many_minutes_as_the_agent_is_to_keep() -> None:
    for minutes in (1, 3):
        feed = Feed(minutes)
        for number in range(400):
            feed.publish(frame(number))
        with feed.watch(pieces_since=-1.0) as late:
            got = [each for piece in late.pieces() for each in piece]
        assert [read(each).sequence for each in got] == [*range(400 - 60 * minutes, 400)]
