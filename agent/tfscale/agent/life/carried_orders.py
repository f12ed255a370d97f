"""Orders without a call of their own, as this agent carries them out; each returns what was done, in words."""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable, Mapping

from tfscale.agent.cluster.gang import GangError
from tfscale.agent.life.agent_parts import AgentParts
from tfscale.agent.supervision.supervisor import SupervisionError
from tfscale.core.errors import UsageError

_UNHANDLED = {signal.SIGKILL, signal.SIGSTOP}
"""Signals that no program can handle: one ends the task as a failure would, the other makes it look hung."""


def carried_orders(parts: AgentParts) -> Mapping[str, Callable[[str], Awaitable[str]]]:
    """Return the function of each order; it gets the order's argument, and raises a TfscaleError."""

    async def uncordon(host: str) -> str:
        if parts.mover is None:
            raise GangError("no host is cordoned where tasks stay: that needs [spares], or min_workers in [recovery]")
        return await parts.mover.uncordon(host)

    async def send_signal(name: str) -> str:
        number = _signal_named(name)
        try:
            return f"{number.name} was sent to process {parts.supervisor.send(number)} of {parts.settings.task}"
        except SupervisionError as error:
            raise GangError(str(error)) from None

    return {"uncordon": uncordon, "signal": send_signal}


def _signal_named(name: str) -> signal.Signals:
    """Return the signal of a name such as `USR1` or `SIGUSR1`. Raises UsageError where it may not be sent."""
    word = name.upper().removeprefix("SIG")
    number = getattr(signal.Signals, f"SIG{word}", None)
    if number is None:
        raise UsageError(f"no signal {name!r}: write a name such as USR1 or HUP")
    if number in _UNHANDLED:
        raise UsageError(f"{word} is not sent, since no program can handle it: give the order stop to end the task")
    return signal.Signals(number)
