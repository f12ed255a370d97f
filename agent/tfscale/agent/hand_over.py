"""`tfscale-agent hand-over`: has the agent of a task leave, while the task goes on for the next one."""

from __future__ import annotations

import os
import signal
import time

from tfscale.agent.settings import AgentSettings
from tfscale.agent.sole_agent import holder
from tfscale.core.errors import TfscaleError

COMMAND = "hand-over"
HAND_OVER = signal.SIGUSR1
"""Signal that asks for it; an agent of an earlier version ends of it, and its task goes on all the same."""
_PATIENCE = 10.0
"""Seconds for an agent to leave."""


class HandOverError(TfscaleError):
    """An agent that is not there, or that stays."""


def hand_over(settings: AgentSettings) -> str:
    """Have the task's agent leave; return a sentence about it. Raises HandOverError and SoleAgentError."""
    pid = holder(settings)
    if pid is None:
        raise HandOverError(f"{settings.identity} has no agent here: give the flags with which it was started")
    try:
        os.kill(pid, HAND_OVER)
    except PermissionError:
        raise HandOverError(f"process {pid}, the agent of {settings.identity}, is another user's") from None
    deadline = time.monotonic() + _PATIENCE
    while holder(settings) == pid:
        if time.monotonic() > deadline:
            raise HandOverError(f"process {pid}, the agent of {settings.identity}, stays: its log says why")
        time.sleep(0.05)
    return f"the agent of {settings.identity} has left: start the next one as this one was started"
