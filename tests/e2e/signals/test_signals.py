"""Programs see each signal under an agent as they see it without one; docs/reference/signals.md has the differences."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from signals.signal_differences import ENDED_BY_ITSELF, difference, expected, in_turn
from signals.signal_trial import AGENT, ALONE, CLUSTER, GROUP, NUMBERS, SETTINGS, TASK, TERMINAL, WAYS, WITH_TASK, Trial

SOME = (signal.SIGHUP, signal.SIGQUIT, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT, 14, 50)
ALL_ENDS = tuple(number for number in NUMBERS if number <= 34 or number >= 62)
"""Signals of the runs with a program that handles none: of the numbers from 35 to 61 no two differ."""
ELSEWHERE = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGTSTP, signal.SIGSEGV, 63)


def rarely(*values: object) -> object:
    return pytest.param(*values, marks=pytest.mark.matrix)


def handled() -> Iterator[object]:
    yield ALONE, AGENT, SOME
    yield WITH_TASK, TERMINAL, (signal.SIGINT, signal.SIGQUIT)
    for setting in SETTINGS:
        yield from (rarely(setting, way, in_turn(way, setting)) for way in WAYS)


@pytest.mark.parametrize(("setting", "way", "numbers"), handled())
def test_handlers_are_called_as_without_an_agent(
    setting: str, way: str, numbers: tuple[int, ...], tmp_path: Path
) -> None:
    stock = Trial(tmp_path, None, way).sees(*numbers)
    assert stock.calls == numbers
    ours = Trial(tmp_path, setting, way).sees(*numbers)
    assert ours.calls == tuple(number for number in numbers if difference(number, way, setting) is None)
    assert ours.end == stock.end == ENDED_BY_ITSELF


def ends() -> Iterator[object]:
    yield ALONE, TERMINAL, signal.SIGINT
    yield ALONE, AGENT, signal.SIGUSR1
    yield CLUSTER, AGENT, signal.SIGINT
    yield WITH_TASK, TERMINAL, signal.SIGHUP
    yield from (rarely(ALONE, AGENT, number) for number in ALL_ENDS)
    for setting in SETTINGS:
        yield from (rarely(setting, TERMINAL, number) for number in (1, 2, 3, 20, 28))
        yield from (rarely(setting, way, number) for way in (AGENT, GROUP, TASK) for number in ELSEWHERE)


@pytest.mark.parametrize(("setting", "way", "number"), ends())
def test_a_program_ends_by_a_signal_as_without_an_agent(setting: str, way: str, number: int, tmp_path: Path) -> None:
    stock = Trial(tmp_path, None, way, handles=False).sees(number)
    ours = Trial(tmp_path, setting, way, handles=False).sees(number)
    assert ours == expected(stock, number, way, setting)


@pytest.mark.matrix
@pytest.mark.parametrize("number", [1, 15, 4, 63])
@pytest.mark.parametrize("setting", SETTINGS)
def test_a_handler_may_end_the_program_or_outlive_the_agent(setting: str, number: int, tmp_path: Path) -> None:
    stock = Trial(tmp_path, None, AGENT).sees(number)
    assert Trial(tmp_path, setting, AGENT).sees(number) == expected(stock, number, AGENT, setting)
