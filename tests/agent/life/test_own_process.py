"""Signals, begin, GPUs and exit status of the agents of one process."""

from __future__ import annotations

import asyncio
import logging
import os
import signal

import pytest
from fake_nvml import FakeGpu, FakeNvml, samples_of
from tfscale.agent.life.own_process import NotBegun, OwnProcess
from tfscale.agent.process.passed_signals import HAND_OVER
from tfscale.agent.telemetry.gpu_collector import GpuCollector
from tfscale.core.logs import SERVED


class Recorded:
    """Life that writes down what it is asked, and the task that the log would name meanwhile."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str | None]] = []

    def leave(self) -> None:
        self.asked.append(("leave", SERVED.get()))

    def hand_over(self) -> None:
        self.asked.append(("hand over", SERVED.get()))

    def pass_on(self, number: int) -> None:
        self.asked.append((f"pass on {number}", SERVED.get()))

    def is_task_stopped(self) -> bool:
        return False


async def live(process: OwnProcess, life: Recorded, name: str, until: asyncio.Event) -> None:
    SERVED.set(name)
    with process.living(life):
        await process.ready()
        await until.wait()


async def test_a_signal_is_for_all_agents_each_under_its_name() -> None:
    process, until = OwnProcess(2), asyncio.Event()
    lives = {name: Recorded() for name in ("worker:0", "ps:0")}
    async with asyncio.TaskGroup() as group:
        for name, life in lives.items():
            group.create_task(live(process, life, name, until))
        await asyncio.sleep(0.05)
        for number in (HAND_OVER, signal.SIGUSR1, signal.SIGTERM):
            os.kill(os.getpid(), number)
            await asyncio.sleep(0.05)
        until.set()
    assert {name: life.asked for name, life in lives.items()} == {
        name: [("hand over", name), (f"pass on {signal.SIGUSR1}", name), ("leave", name)] for name in lives
    }


async def test_none_begins_before_all_are_ready() -> None:
    process = OwnProcess(3)
    waiting = [asyncio.create_task(process.ready()) for _ in range(2)]
    await asyncio.sleep(0.05)
    assert not any(each.done() for each in waiting)
    await process.ready()
    await asyncio.gather(*waiting)
    await process.ready()  # as of the next daemon of a seat


async def test_where_one_cannot_begin_none_does() -> None:
    process = OwnProcess(3)
    waiting = asyncio.create_task(process.ready())
    await asyncio.sleep(0)
    process.fail(2)
    with pytest.raises(NotBegun):
        await waiting
    with pytest.raises(NotBegun):
        await process.ready()
    assert process.exit_status == 2


async def test_who_fails_later_stops_nobody() -> None:
    process = OwnProcess(1)
    await process.ready()
    process.fail(1)
    await process.ready()


def test_the_status_is_that_of_the_failure_that_came_first() -> None:
    process = OwnProcess(3)
    assert process.exit_status == 0
    process.ended(0, 1.0)
    process.ended(4, 7.0)
    process.ended(3, 5.0)
    assert process.exit_status == 3


async def test_one_collector_reads_the_gpus_for_all(caplog: pytest.LogCaptureFixture) -> None:
    made: list[GpuCollector] = []

    def make() -> GpuCollector:
        made.append(GpuCollector(FakeNvml(FakeGpu()), period=0.01))
        return made[-1]

    process = OwnProcess(2, make_collector=make)
    with caplog.at_level(logging.INFO), process.living(Recorded()), process.living(Recorded()):
        process.gpus()
        assert samples_of(made[0])[0].name == "Fake H100"
        assert process.gpus()[0].name == "Fake H100"
    assert len(made) == 1 and "1 GPUs: Fake H100" in caplog.text
