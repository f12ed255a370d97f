"""Restarts without a host whose agents do not answer, or whose tasks failed again and again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from tfscale.agent.cluster.gang import Counting, Gang, GangMember
from tfscale.agent.cluster.operation import Operation
from tfscale.agent.placement.mover import Mover
from tfscale.agent.recovery.incident import Incident
from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.cluster.many_questions import ask_each
from tfscale.core.cluster.placement.placement import PlacementError
from tfscale.core.cluster.recovery_policy import RecoveryPolicy, time_text
from tfscale.core.cluster.task import Task
from tfscale.core.records.task_status import Reason, TaskState
from tfscale.core.text import listing

_logger = logging.getLogger(__name__)
_AGAIN = 10.0
"""Seconds between two tries to place tasks anew: each asks all agents."""


class HostReplacement:
    """Decisions of the acting lead about hosts. `mover` is None where tasks stay where the cluster file has them."""

    def __init__(
        self,
        spec: ClusterSpec,
        policy: RecoveryPolicy,
        members: Mapping[Task, GangMember],
        gang: Gang,
        mover: Mover | None,
    ) -> None:
        self._spec, self._policy, self._members, self._gang, self._mover = spec, policy, members, gang, mover

    @property
    def plan(self) -> str:
        """Consequence of tries in vain, as the next part of a sentence; empty where tasks stay where they are."""
        return "" if self._mover is None else f", and after {time_text(self._policy.replace_after)} without that host"

    def due_in(self, incident: Incident) -> float | None:
        """Return the seconds until tasks are placed without the hosts that prevent their restart, None for never."""
        if self._mover is None or incident.troubled is None:
            return None
        now = asyncio.get_running_loop().time()
        due = incident.troubled + self._policy.replace_after
        return max(0.0, due - now, 0.0 if incident.move_tried is None else incident.move_tried + _AGAIN - now)

    async def count(self, incident: Incident) -> dict[str, str]:
        """Count the failure for its host; return {host: reason} if the host is to be cordoned now, else nothing.

        A task that ended because its peer was gone, or that nobody started, says nothing about its own host, and one
        that ended while another host was gone says little. Raises JournalError.
        """
        if self._mover is None or incident.is_hang:
            return {}
        first, host = incident.first(), self._spec.agents[incident.cause()[0]].host
        incident.absent = {seat.host for seat in await self._mover.gone()}
        if first.followed or first.unstarted or (incident.absent | self._reported_lost(incident)) - {host}:
            return {}
        incident.blamed.add(host)
        return await self._gang.blame([host], incident.generation, self._policy)

    async def count_lost(self, incident: Incident) -> dict[str, str]:
        """Count a failure of each host that ended with its task and is back; return as `count` does.

        An agent that was gone alone, as for an upgrade, knows how its task went on. Raises JournalError, and GangError
        where an agent is still gone.
        """
        if self._mover is None:
            return {}
        away = tuple(task for task in incident.scope if self._spec.agents[task].host in incident.absent)
        await self._gang.check_restart(away, incident.generation + 1)
        statuses = await ask_each(lambda task: self._members[task].status(), away)
        back = (task for task, status in zip(away, statuses, strict=True) if status and status.state is TaskState.LOST)
        incident.lost |= {self._spec.agents[task].host for task in back} | self._reported_lost(incident)
        fresh = sorted(incident.lost - incident.blamed)
        incident.blamed |= incident.lost
        return await self._gang.blame(fresh, incident.generation, self._policy) if fresh else {}

    def share(self, incident: Incident) -> str:
        """Return in words that the restart counts for the hosts that were lost; empty where it counts for the tasks.

        It does once one of these hosts has failed so often that it is to be cordoned: the others cannot hold its tasks.
        """
        failures = self._gang.counts.hosts
        if any(failures.why_cordoned(host, self._policy) for host in incident.lost):
            return ""
        return listing([failures.which(host, self._policy) for host in sorted(incident.lost)])

    def _reported_lost(self, incident: Incident) -> set[str]:
        return {self._spec.agents[task].host for task, failure in incident.failures.items() if failure.lost}

    async def begin(
        self, incident: Incident, reason: Reason, cordoned: Mapping[str, str], counted: Counting | None
    ) -> Operation | None:
        """Begin the restart that places tasks on other hosts, if it is due; return None where no task moves.

        Raises what Gang.move raises.
        """
        is_new = not incident.cordon_tried.issuperset(cordoned)
        if self._mover is None or not (is_new or self.due_in(incident) == 0.0):
            return None
        incident.cordon_tried.update(cordoned)
        incident.move_tried = asyncio.get_running_loop().time()
        try:
            return await self._mover.replace(reason, cordoned, incident.blamed, incident.generation, counted)
        except PlacementError as error:
            if str(error) != incident.obstacle:
                _logger.warning("%s", error)
            incident.obstacle = str(error)
            return None
