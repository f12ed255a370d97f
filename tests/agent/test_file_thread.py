"""Calls of a thread that are given up."""

from __future__ import annotations

import asyncio
import threading

import pytest
from tfscale.agent.file_thread import DiskHangs, FileThread


async def test_what_a_call_returns_after_it_was_given_up_is_discarded() -> None:
    answers, discarded = threading.Event(), threading.Event()
    files = FileThread(patience=0.1)
    with pytest.raises(DiskHangs):
        await files.call(answers.wait, lambda _: discarded.set())
    assert not discarded.is_set()
    answers.set()
    await asyncio.sleep(0.1)
    assert discarded.is_set()


async def test_what_comes_in_the_moment_in_which_a_call_is_given_up_is_discarded() -> None:
    discarded: list[int] = []
    calling = asyncio.create_task(FileThread().call(lambda: 5, discarded.append))
    while not _has_answer(calling):  # noqa: ASYNC110
        await asyncio.sleep(0)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    assert discarded == [5]


def _has_answer(calling: asyncio.Task[int]) -> bool:
    frame = calling.get_stack()[0]
    return "done" in frame.f_locals and frame.f_locals["done"].done()


async def test_an_error_of_the_function_is_raised() -> None:
    def fail() -> None:
        raise TimeoutError("of its own")

    with pytest.raises(TimeoutError, match="of its own"):
        await FileThread().call(fail)


async def test_no_thread_is_left_once_nothing_is_to_do() -> None:
    files = FileThread()
    for _ in range(3):
        thread = await files.call(threading.current_thread)
        thread.join(5)
        assert not thread.is_alive()
    assert await asyncio.gather(*(files.call(lambda number=number: number) for number in range(50))) == list(range(50))


async def test_what_a_late_call_opened_is_closed() -> None:
    answers, order = threading.Event(), list[str]()
    files = FileThread(patience=0.1)

    def open_late() -> None:
        answers.wait()
        order.append("opened")

    closed = threading.Event()
    with pytest.raises(DiskHangs):
        await files.call(open_late)
    files.finish(lambda: (order.append("closed"), closed.set()))
    answers.set()
    assert closed.wait(60) and order == ["opened", "closed"]
