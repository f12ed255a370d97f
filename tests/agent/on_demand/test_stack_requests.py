"""Stacks of a real process that writes them, and the reasons why there are none."""

# Small files on a local disk, and processes that start at once.
# ruff: noqa: ASYNC220, ASYNC240

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tfscale.agent.file_thread import FileThread
from tfscale.agent.on_demand.stack_requests import (
    StackListener,
    StackTimeout,
    StackUnavailable,
    dump_stacks,
    main_first,
)

PROGRAM = """
import sys, threading, time
from tfscale.trainer.probe.on_demand import stack_dumps

inside = threading.Semaphore(0)

def wait_beside():
    inside.release(); time.sleep(60)

def wait_here():
    # In one line, which is the one that the stack names, whether it waits already or not.
    print(number, flush=True); time.sleep(60)

number = stack_dumps.listen()
for _ in range(int(sys.argv[1])):
    threading.Thread(target=wait_beside, daemon=True).start()
    inside.acquire()
wait_here()
"""
ROOTS = os.pathsep.join(str(Path(__file__).parents[3] / root) for root in ("core", "trainer", "protos"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "task.stacks"


@pytest.fixture
def listener(path: Path, request: pytest.FixtureRequest) -> Iterator[StackListener]:
    """Start a process with one thread beside the main one, or as many as the parameter says."""
    environment = os.environ | {"TFSCALE_STACKS": str(path), "PYTHONPATH": ROOTS}
    command = [sys.executable, "-c", PROGRAM, str(getattr(request, "param", 1))]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield StackListener(process.pid, int(process.stdout.readline()))
        process.kill()


async def test_the_main_thread_comes_first(listener: StackListener, path: Path) -> None:
    stack = await dump_stacks(listener, os.getpid(), path, FileThread())
    main, other = stack.text.split("\n\n")
    assert main.startswith("Main thread (most recent call first):") and "in wait_here" in main
    assert "in wait_beside" in other
    assert stack.pid == listener.pid


async def test_asked_again_the_file_does_not_grow(listener: StackListener, path: Path) -> None:
    first = (await dump_stacks(listener, os.getpid(), path, FileThread())).text
    assert (await dump_stacks(listener, os.getpid(), path, FileThread())).text == first
    assert path.stat().st_size < 2 * len(first)


async def test_a_process_that_is_not_the_tasks_gets_no_signal(listener: StackListener, path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as stranger:
        with pytest.raises(StackUnavailable, match="is gone"):
            await dump_stacks(StackListener(stranger.pid, listener.signal), listener.pid, path, FileThread())
        assert stranger.poll() is None
        stranger.kill()


async def test_a_process_without_a_handler_is_not_ended_by_the_question(path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as program:
        with pytest.raises(StackUnavailable, match="listens no more"):
            await dump_stacks(StackListener(program.pid, signal.SIGRTMIN + 5), os.getpid(), path, FileThread())
        assert program.poll() is None
        program.kill()


@pytest.mark.parametrize("listener", [120], indirect=True)
async def test_no_other_thread_is_taken_for_a_main_thread_that_was_left_out(
    listener: StackListener, path: Path
) -> None:
    text = (await dump_stacks(listener, os.getpid(), path, FileThread())).text
    assert text.startswith("The main thread is not among these")
    assert "Main thread" not in text and "in wait_here" not in text and "in wait_beside" in text


async def test_a_stopped_process_is_said_to_be_silent(listener: StackListener, path: Path) -> None:
    os.kill(listener.pid, signal.SIGSTOP)
    with pytest.raises(StackTimeout, match="wrote no stack"):
        await dump_stacks(listener, os.getpid(), path, FileThread())


async def test_a_task_is_not_asked_while_the_disk_of_its_stacks_hangs(listener: StackListener, path: Path) -> None:
    path.unlink()
    os.mkfifo(path)  # opening it waits for a reader, as a disk that hangs does
    files, ticks = FileThread(patience=0.5), 0
    asking = asyncio.create_task(dump_stacks(listener, os.getpid(), path, files))
    while not asking.done():
        await asyncio.sleep(0.05)
        ticks += 1
    with pytest.raises(StackUnavailable, match=r"the disk has not answered for 0\.5 s"):
        await asking
    assert ticks >= 5  # the loop went on meanwhile
    with path.open("rb") as reader:
        assert reader.read() == b""  # the agent's thread has opened and closed it; nobody has written


async def test_a_file_of_stacks_that_is_removed_is_one_clear_error(listener: StackListener, path: Path) -> None:
    os.kill(listener.pid, signal.SIGSTOP)
    asking = asyncio.create_task(dump_stacks(listener, os.getpid(), path, FileThread()))
    await asyncio.sleep(0.3)
    path.unlink()
    with pytest.raises(StackUnavailable, match=r"cannot be read: .*No such file"):
        await asking


@pytest.mark.parametrize(
    ("known", "task", "why"), [(None, 1, "no probe listens"), (StackListener(1, 40), None, "does not run")]
)
async def test_without_a_listener_or_a_task_there_is_none(
    path: Path, known: StackListener | None, task: int | None, why: str
) -> None:
    with pytest.raises(StackUnavailable, match=why):
        await dump_stacks(known, task, path, FileThread())


def test_what_is_no_list_of_threads_stays_as_it_is() -> None:
    assert main_first("Fatal Python error\n") == "Fatal Python error\n"
