"""`tfscale-agent hand-over`: has the agents of tasks leave, while the tasks go on for the next ones."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from tfscale.agent.placement.seat import Seat
from tfscale.agent.process.passed_signals import HAND_OVER
from tfscale.agent.settings import AgentSettings
from tfscale.agent.sole_agent import holder
from tfscale.core.errors import TfscaleError

COMMAND = "hand-over"
_PATIENCE = 10.0
"""Seconds for an agent to leave."""


class HandOverError(TfscaleError):
    """An agent that does not exist, or that stays."""


def hand_over(agents: Sequence[AgentSettings]) -> list[str]:
    """Have these tasks' agents leave; return a sentence about each. Raises HandOverError and SoleAgentError.

    Agents of other tasks in the same process leave, too.
    """
    holders = [(settings, _process_of(settings)) for settings in map(_placed, agents)]
    for pid in {pid for _, pid in holders}:
        _ask(pid, next(settings for settings, holder in holders if holder == pid))
    return [_left(settings, pid) for settings, pid in holders]


def _placed(settings: AgentSettings) -> AgentSettings:
    """Return the settings of the agent of the seat's current task; unchanged where tasks do not move."""
    if settings.seat is None:
        return settings
    placed = Seat(settings).settings()
    if placed is None:
        raise HandOverError(f"the agent at {settings.seat} holds no task: end it, and start the next one")
    return placed


def _process_of(settings: AgentSettings) -> int:
    if (pid := holder(settings)) is None:
        raise HandOverError(f"{settings.identity} has no agent here: give the flags with which it was started")
    return pid


def _ask(pid: int, settings: AgentSettings) -> None:
    try:
        os.kill(pid, HAND_OVER)
    except ProcessLookupError:
        return  # it has left by itself in this moment
    except PermissionError:
        raise HandOverError(f"process {pid}, the agent of {settings.identity}, is another user's") from None


def _left(settings: AgentSettings, pid: int) -> str:
    """Wait until the agent has left, and say so."""
    deadline = time.monotonic() + _PATIENCE
    while holder(settings) == pid:
        if time.monotonic() > deadline:
            raise HandOverError(f"process {pid}, the agent of {settings.identity}, stays: its log says why")
        time.sleep(0.05)
    return f"the agent of {settings.identity} has left: start the next one as this one was started"
