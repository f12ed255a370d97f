# Small files on a local disk.
# ruff: noqa: ASYNC240

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tfscale.agent.file_thread import DiskHangs, FileThread
from tfscale.agent.on_demand.task_log import LogLines, read_log
from tfscale.agent.supervision.output_log import OutputLog
from tfscale.core.errors import UsageError


async def all_of(chunks: AsyncIterator[LogLines]) -> list[str]:
    return [line async for chunk in chunks for line in chunk.lines]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "task.log"


@pytest.mark.parametrize(("tail", "expected"), [(0, []), (2, ["three", "four"]), (9, ["one", "two", "three", "four"])])
async def test_the_tail_is_what_was_asked_for(log: Path, tail: int, expected: list[str]) -> None:
    log.write_text("one\ntwo\nthree\nfour\n")
    assert await all_of(read_log(log, tail, follow=False, files=FileThread())) == expected


async def test_an_unfinished_last_line_is_part_of_the_tail(log: Path) -> None:
    log.write_text("one\ntwo")
    assert await all_of(read_log(log, 2, follow=False, files=FileThread())) == ["one", "two"]


async def test_the_tail_reaches_into_the_rotated_log(log: Path) -> None:
    log.with_name("task.log.1").write_text("one\ntwo\nthree\n")
    log.write_text("four\n")
    assert await all_of(read_log(log, 3, follow=False, files=FileThread())) == ["two", "three", "four"]


async def test_no_log_is_no_lines(log: Path) -> None:
    assert await all_of(read_log(log, 5, follow=False, files=FileThread())) == []


async def test_only_the_end_of_a_large_log_is_read(log: Path) -> None:
    log.write_bytes(b"x" * 79 + b"\n")
    with log.open("ab") as file:
        file.writelines(b"%079d\n" % number for number in range(50_000))
    assert [int(line) for line in await all_of(read_log(log, 3, follow=False, files=FileThread()))] == [
        49_997,
        49_998,
        49_999,
    ]


async def test_what_a_progress_bar_overwrote_is_gone(log: Path) -> None:
    log.write_text("1/3\r2/3\r3/3\nplain\r\n")
    assert await all_of(read_log(log, 5, follow=False, files=FileThread())) == ["3/3", "plain"]


async def test_a_line_without_end_does_not_grow_for_ever(log: Path) -> None:
    log.write_bytes(b"x" * 100_000)
    lines = await all_of(read_log(log, 100, follow=False, files=FileThread()))
    assert "".join(lines) == "x" * 100_000


async def test_following_survives_rotation_and_loses_nothing(log: Path) -> None:
    writer = OutputLog(str(log), 4096, 3)
    seen: list[str] = []
    rotations = 0

    async def follow() -> None:
        nonlocal rotations
        async for chunk in read_log(log, 0, follow=True, files=FileThread()):
            seen.extend(chunk.lines)
            rotations += chunk.rotated
            if seen and seen[-1] == "599":
                return

    following = asyncio.create_task(follow())
    for number in range(600):
        writer.write(b"%d\n" % number)
        if number % 200 == 0:
            await asyncio.sleep(0.3)
    async with asyncio.timeout(60):
        await following
    assert seen == [str(number) for number in range(int(seen[0]), 600)]


async def test_a_log_that_comes_later_is_followed(log: Path) -> None:
    chunks = read_log(log, 10, follow=True, files=FileThread())
    assert (await anext(chunks)).lines == ()
    whole = log.with_name("whole")
    whole.write_text("first\n")
    whole.replace(log)
    async with asyncio.timeout(60):
        chunk = await anext(chunks)
    assert chunk == LogLines(("first",), rotated=False)
    await chunks.aclose()


async def test_a_bar_without_line_ends_shows_its_newest_state(log: Path) -> None:
    log.write_bytes(b"".join(b"\r%d/90000 loss: 0.5" % step for step in range(90_000)))
    assert await all_of(read_log(log, 5, follow=False, files=FileThread())) == ["89999/90000 loss: 0.5"]
    chunks = read_log(log, 5, follow=True, files=FileThread())
    assert (await anext(chunks)).lines == ()
    async with asyncio.timeout(60):
        assert await anext(chunks) == LogLines(("89999/90000 loss: 0.5",))
        with log.open("ab") as file:
            file.write(b"\r90000/90000 loss: 0.4\n")
        assert await anext(chunks) == LogLines(("90000/90000 loss: 0.4",))
    await chunks.aclose()


async def test_a_tail_is_bounded(log: Path) -> None:
    with pytest.raises(UsageError, match="4294967295 lines of a log: ask for 10000 at most"):
        await all_of(read_log(log, (1 << 32) - 1, follow=False, files=FileThread()))


async def test_a_log_on_a_disk_that_hangs_is_one_clear_error(log: Path) -> None:
    os.mkfifo(log)  # opening it waits for a writer, as a disk that hangs does
    files = FileThread(patience=0.3)
    for _ in range(2):
        with pytest.raises(DiskHangs, match=r"has not answered for 0\.3 s"):
            await all_of(read_log(log, 5, follow=False, files=files))
    log.open("wb").close()
    closed = threading.Event()
    files.finish(closed.set)  # and by then its reader has been
    assert closed.wait(60)
