"""A newcomer with no other help than the keys that the screen names: they find, look, and restart."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from stepped.stepped_simulation import SteppedSimulation
from textual.pilot import Pilot
from tfscale.console.sources.simulation.simulated import PLAIN, Shape
from tfscale.console.tui.app import ConsoleApp
from waiting import until

WORKERS, SIZE = 64, (120, 40)
RESTARTED = 20
"""Seconds of a restart of all, and of the line that tells of it."""


class Newcomer(NamedTuple):
    """Operator who presses only keys that are on the screen."""

    simulation: SteppedSimulation
    app: ConsoleApp
    pilot: Pilot[Any]

    def screen(self) -> str:
        lines = (strip.text.replace("│", " ") for strip in self.app.screen._compositor.render_strips())
        return " ".join(" ".join(lines).split())

    async def press(self, *keys: tuple[str, str]) -> None:
        """Press keys, each by the words that name it on the screen."""
        for words, key in keys:
            assert words in self.screen(), f"nothing names {words!r}:\n{self.screen()}"
            await self.pilot.press(key)
            await self.pilot.pause(0.05)

    async def sees(self, *words: str) -> None:
        try:
            await until(lambda: all(each in self.screen() for each in words), self.pilot.pause)
        except AssertionError:
            raise AssertionError(f"{words} is not on the screen:\n{self.screen()}") from None

    async def waits(self, seconds: int) -> None:
        await self.simulation.step(self.pilot, seconds)


@asynccontextmanager
async def newcomer(seconds: int, *faults: str, shape: Shape = PLAIN) -> AsyncIterator[Newcomer]:
    """Have a newcomer come to a simulation some seconds after its begin."""
    simulation = SteppedSimulation(WORKERS, *faults, shape=shape)
    app = simulation.app()
    async with app.run_test(size=SIZE) as pilot:
        each = Newcomer(simulation, app, pilot)
        await each.waits(seconds)
        yield each


BACK = ("esc back", "escape")
RESTART = (("r restart", "r"), ("Restart (y)", "y"))


async def test_a_straggler_its_cause_log_stack_and_past_and_its_restart() -> None:
    async with newcomer(18, "worker:17=40ms,input@8s") as her:
        await her.sees("worker:17 has been slow", "Likely cause: its data come late", "▌ worker:17")
        await her.press(("l log", "l"))
        await her.sees("log of worker:17", "100/1000 - loss")
        await her.press(BACK, ("b stack", "b"))
        await her.sees("worker:17, process 4017", "826 _next_internal")
        await her.pilot.press("escape")
        await her.press(("e events", "e"), ("enter evidence", "enter"))
        await her.sees("kind straggler", "phase input")
        await her.pilot.press("escape")
        await her.press(BACK, *RESTART)
        await her.waits(RESTARTED)
        await her.sees("healthy: 64 workers in step", "generation 2")


async def test_a_hang_and_where_its_process_stands() -> None:
    async with newcomer(16, "worker:40=hang@8s") as her:
        await her.sees("worker:40 has not entered the all-reduce", "▌ worker:40")
        await her.press(("enter task", "enter"), ("b stack", "b"))
        await her.sees("41 on_train_batch_end")
        await her.pilot.press("escape")
        await her.press(*RESTART)
        await her.waits(RESTARTED)
        await her.press(BACK)
        await her.sees("healthy: 64 workers in step")


async def test_a_dead_host_is_left_for_the_spare() -> None:
    async with newcomer(16, "worker:9=gone@8s", shape=Shape(spares=1)) as her:
        await her.sees("worker:9's host does not answer to anyone")
        await her.press(("6 hosts", "6"))
        await her.sees("65 hosts 1 spare 1 dead", "10.0.0.11 node-0009 ✖ dead")
        await her.press(BACK, ("W restart without it", "W"), ("Restart (y)", "y"))
        await her.waits(RESTARTED)
        await her.sees("healthy: 64 workers in step", "cordoned: 10.0.0.11")


async def test_three_culprits_one_after_the_other() -> None:
    faults = ("worker:5=30ms,input@5s", "worker:33=thermal@5s", "worker:50=cpu@5s")
    async with newcomer(16, *faults) as her:
        await her.sees("3 of 64 workers (worker:5, 33 and 50)", "waiting for its data", "overheated", "short of CPU")
        for culprit in ("worker:5", "worker:33", "worker:50"):
            await her.press(("! culprit", "exclamation_mark"))
            await her.sees(f"▌ {culprit} ")


async def test_a_lost_host_without_a_spare_has_no_way_out_on_the_screen() -> None:
    async with newcomer(16, "worker:9=gone@8s") as her:
        await her.sees("worker:9's host does not answer to anyone", "r restart")
        assert "W restart" not in her.screen()
