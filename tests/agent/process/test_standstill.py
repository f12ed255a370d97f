import asyncio

import pytest
from tfscale.agent.on_demand.stack_requests import StackDump, StackUnavailable
from tfscale.agent.process import standstill
from tfscale.agent.process.standstill import StandstillWatch
from tfscale.core.records.probe_status import Collective

STACKS = 'Main thread (most recent call first):\n  File "/home/me/train.py", line 12 in <module>'
PLACE = "its program stands at train.py, line 12 (<module>)"


class Asked:
    def __init__(self) -> None:
        self.times = 0

    async def __call__(self) -> StackDump:
        self.times += 1
        return StackDump(0.0, 7, STACKS)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standstill, "STILL", 0.02)


async def look(watch: StandstillWatch, *progress: Collective) -> None:
    for each in progress:
        watch.look(each)
        await asyncio.sleep(0.03)


async def test_a_process_that_stands_still_is_asked_once_where_its_program_stands() -> None:
    watch = StandstillWatch(asked := Asked())
    await look(watch, *[Collective(8, 7)] * 4)
    assert (watch.place, asked.times) == (PLACE, 1)


async def test_progress_ends_the_place() -> None:
    watch = StandstillWatch(Asked())
    await look(watch, *[Collective(8, 7)] * 3)
    assert watch.place == PLACE
    await look(watch, Collective(9, 8))
    assert watch.place == ""


async def test_a_process_at_work_or_before_its_first_step_is_never_asked() -> None:
    watch = StandstillWatch(asked := Asked())
    await look(watch, *(Collective(number + 1, number) for number in range(5)))
    await look(StandstillWatch(asked), *[Collective(1, 0)] * 4)
    assert asked.times == 0


async def test_a_stack_that_cannot_be_had_leaves_the_place_unknown() -> None:
    async def refuse() -> StackDump:
        raise StackUnavailable("no probe listens")

    watch = StandstillWatch(refuse)
    await look(watch, *[Collective(8, 7)] * 3)
    assert watch.place == ""
