"""Agent of a seat: one daemon after another, each for the task that the seat holds in the newest placement."""

from __future__ import annotations

import logging
from collections.abc import Callable

from tfscale.agent.life.agent_parts import task_spec
from tfscale.agent.life.daemon import Daemon
from tfscale.agent.life.own_process import OwnProcess
from tfscale.agent.life.spare_daemon import SpareDaemon
from tfscale.agent.placement.seat import Seat
from tfscale.agent.placement.seat_peer import SeatPeer, ask_some, newest_placement
from tfscale.agent.placement.voting import Voting
from tfscale.agent.settings import AgentSettings
from tfscale.agent.sole_agent import sole_agent
from tfscale.agent.supervision.shown_output import shown_output
from tfscale.agent.supervision.supervisor import Supervisor
from tfscale.core.cluster.cluster_spec import Address
from tfscale.core.cluster.placement.placement import seats_of
from tfscale.core.cluster.security import ChannelOpener
from tfscale.core.logs import SERVED
from tfscale.core.records.task_status import Reason

_logger = logging.getLogger(__name__)
Life = Daemon | SpareDaemon


async def run(settings: AgentSettings, process: OwnProcess, begun: Callable[[Life], None] = lambda _: None) -> int:
    """Serve until asked to end, and return the exit status. `begun` is called with each daemon. Raises as `Daemon.run`.

    Raises what `Daemon.run` does.
    """
    seat = Seat(settings)
    voting = Voting(settings)
    try:
        return await _live(settings, process, seat, voting, begun)
    finally:
        await voting.close()


async def _live(
    settings: AgentSettings, process: OwnProcess, seat: Seat, voting: Voting, begun: Callable[[Life], None]
) -> int:
    await _catch_up(settings, seat, voting.opener)
    while True:
        placed = seat.settings()
        if placed is None:
            SERVED.set(spare_name(settings))
            life: Life = SpareDaemon(settings, process, seat, voting)
            status = await _lived(life, begun)
        else:
            SERVED.set(str(placed.task))
            with sole_agent(placed):
                async with shown_output(placed, process.is_asked_to_end):
                    life = Daemon(placed, process, seat, seat_peers(placed, seat.address, voting.opener), voting)
                    status = await _lived(life, begun)
        if not life.moves or process.is_asked_to_end():
            return status


def spare_name(settings: AgentSettings) -> str:
    """Return the name that a seat without a task has in the log."""
    return f"spare {settings.seat}"


async def _lived(life: Life, begun: Callable[[Life], None]) -> int:
    """Run a daemon, and return its exit status."""
    begun(life)
    return await life.run()


def seat_peers(settings: AgentSettings, own: Address, opener: ChannelOpener) -> dict[Address, SeatPeer]:
    """Return the other seats of the cluster."""
    spec = settings.cluster
    return {seat: SeatPeer(spec, settings.run, seat, opener) for seat in seats_of(spec) if seat != own}


async def _catch_up(settings: AgentSettings, seat: Seat, opener: ChannelOpener) -> None:
    """Learn the placements of the time without this agent, and end its task if another agent holds that task now.

    Where none of the asked agents knows, the lead's agent tells it later.
    """
    before, peers = seat.settings(), seat_peers(settings, seat.address, opener)
    lead = next(iter(seat.placement.seats.values()))
    newest = newest_placement(await ask_some(peers, lead), settings.cluster)
    if newest is None or not newest.is_newer(seat.placement):
        return
    await seat.accept(newest, Reason("placed while its agent was not there"), leaves=False)
    if before is not None and before.task != seat.task:
        await _end(before)


async def _end(settings: AgentSettings) -> None:
    """End the task of these settings if it outlived its agent."""
    with sole_agent(settings):
        supervisor = Supervisor(task_spec(settings), lambda _: None)
        await supervisor.adopt(0, 0, any_command=True)
        if supervisor.alive:
            _logger.warning("%s, which outlived its agent, is placed elsewhere: it is ended here", settings.task)
            await supervisor.stop("placed elsewhere")
