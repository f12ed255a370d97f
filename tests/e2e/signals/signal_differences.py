"""Signals of which a program under an agent sees something else than without one, each with its reason."""

from __future__ import annotations

import signal
from collections.abc import Set
from dataclasses import dataclass

from tfscale.agent.process.passed_signals import HAND_OVER, OF_FAULTS

from signals.signal_trial import (
    AGENT,
    ALONE,
    CLUSTER,
    GROUP,
    NUMBERS,
    OF_TERMINAL,
    SETTINGS,
    TASK,
    TERMINAL,
    WITH_TASK,
    Seen,
)

ENDED_BY_ITSELF = "exited 7"
WITHOUT_AGENT = "goes on without its agent"


@dataclass(frozen=True)
class Difference:
    """Difference for some signals, mostly where they are sent to the agent or to the process group started with it."""

    numbers: Set[int]
    end: str
    """End of the program, of which no handler is called."""
    what: str
    why: str
    settings: tuple[str, ...] = SETTINGS
    ways: tuple[str, ...] = (AGENT, GROUP)

    def concerns(self, number: int, way: str, setting: str) -> bool:
        """Decide whether this signal is another one for the program, when it comes in this way."""
        return number in self.numbers and way in self.ways and setting in self.settings


DIFFERENCES = (
    Difference(
        OF_FAULTS,
        WITHOUT_AGENT,
        "ends the agent, and not the program",
        "It tells a fault of the process that gets it, and a handler would repeat the fault. The agent ends as if "
        "killed: the next agent adopts its task.",
    ),
    Difference(
        frozenset({33}),
        ENDED_BY_ITSELF,
        "does not reach the program",
        "The C library keeps it for itself, and takes it in a process with threads, as an agent is.",
    ),
    Difference(
        frozenset({33}),
        "exited 161",
        "ends the program, and its agent exits with 161",
        "The C library keeps it for itself: no process with threads ends by it.",
        settings=(ALONE, WITH_TASK),
        ways=(TASK,),
    ),
    Difference(
        frozenset({signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTTOU}),
        ENDED_BY_ITSELF,
        "does not reach the program",
        "The kernel sends it to the agent because of the agent's own children, pipes, files and terminal. A Python "
        "program ignores the first three, too, unless it handles them.",
    ),
    Difference(
        frozenset({32}),
        WITHOUT_AGENT,
        "ends the agent, and not the program",
        "The C library keeps it for itself: no program can handle it, and the agent cannot pass it on.",
    ),
    Difference(
        frozenset({HAND_OVER}),
        WITHOUT_AGENT,
        "has the agent leave without the program",
        "It is the order of `tfscale-agent hand-over`.",
        settings=(CLUSTER,),
    ),
    Difference(
        frozenset({HAND_OVER}),
        ENDED_BY_ITSELF,
        "does not reach the program",
        "It is the order of `tfscale-agent hand-over`, which an agent that ends with its task refuses.",
        settings=tuple(each for each in SETTINGS if each != CLUSTER),
    ),
)


def difference(number: int, way: str, setting: str) -> Difference | None:
    """Return what differs for a signal that comes in this way, None if nothing does."""
    return next((each for each in DIFFERENCES if each.concerns(number, way, setting)), None)


def expected(stock: Seen, number: int, way: str, setting: str) -> Seen:
    """Return what a program must see of one signal under an agent, by what it sees without one."""
    differs = difference(number, way, setting)
    return stock if differs is None else Seen((), differs.end)


def in_turn(way: str, setting: str) -> tuple[int, ...]:
    """Return the signals that one agent can get one after the other, because neither it nor its task ends by them.

    The program handles all that can be handled, and ends by SIGTERM.
    """
    if way == TERMINAL:
        return tuple(number for number in OF_TERMINAL if number != signal.SIGHUP)
    differ = {number: difference(number, way, setting) for number in set(NUMBERS) - {signal.SIGTERM, 32, 33}}
    return tuple(sorted(number for number, each in differ.items() if each is None or each.end == ENDED_BY_ITSELF))
