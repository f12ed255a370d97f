"""Orders without a call of their own, as this agent carries them out; each returns its result in words."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from tfscale.agent.cluster.gang import GangError
from tfscale.agent.life.agent_parts import AgentParts
from tfscale.agent.supervision.supervisor import SupervisionError
from tfscale.core.access.sent_signals import signal_named


def carried_orders(parts: AgentParts) -> Mapping[str, Callable[[str], Awaitable[str]]]:
    """Return the function of each order; it gets the order's argument, and raises a TfscaleError."""

    async def uncordon(host: str) -> str:
        if parts.mover is None:
            raise GangError("no host is cordoned where tasks stay: that needs [spares], or min_workers in [recovery]")
        return await parts.mover.uncordon(host)

    async def send_signal(name: str) -> str:
        number = signal_named(name)
        try:
            return f"{number.name} was sent to process {parts.supervisor.send(number)} of {parts.settings.task}"
        except SupervisionError as error:
            raise GangError(str(error)) from None

    return {"uncordon": uncordon, "signal": send_signal}
