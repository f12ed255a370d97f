"""Agreement of the cluster's agents on the newest command, and on where it has placed the tasks.

The command is the value of a register that a majority of the voters keeps (`agent/consensus/`). So of two agents that
lead at once only one gives the next command, and each agent can learn the newest one, whoever gave it.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tfscale.agent.cluster.gang import GangError, Overtaken, TasksEnded, Undecided, verb_of
from tfscale.agent.cluster.journal import Intent
from tfscale.agent.cluster.recovery_counts import RecoveryCounts, received_counts
from tfscale.agent.consensus.register import NoMajority, Register
from tfscale.agent.process.steady_clock import steady_time
from tfscale.core.cluster.cluster_spec import Address, ClusterSpec
from tfscale.core.cluster.placement.electorate import electorate_of
from tfscale.core.cluster.placement.place_rule import MOVABLE
from tfscale.core.cluster.placement.placement import Placement, PlacementError, parse_placement

_LARGEST = 1 << 22
"""Bytes of a command's JSON: one of 1,000 tasks has some 60 KB, and a tenth of that in the register."""


@dataclass(frozen=True, slots=True)
class AgreedCommand:
    """Command that a majority has agreed on."""

    by: Address
    """Seat of the agent that gave it."""
    verb: str
    tasks: tuple[str, ...]
    generation: int
    placement: Placement
    """Placement of the tasks in this generation."""
    counts: RecoveryCounts = field(default_factory=RecoveryCounts, compare=False)
    """Counts with this command; whoever reads them late takes them for younger than they are."""
    ended: Mapping[str, int] = field(default_factory=dict, compare=False)
    """Generation of the command that has ended a task for good, by the tasks that none has started since."""

    @property
    def order(self) -> tuple[int, int]:
        """Number by which the newest of several commands is the highest."""
        return self.generation, self.placement.revision

    def ended_after(self, before: AgreedCommand | None) -> dict[str, int]:
        """Return `ended` of this command where it follows `before`."""
        ended = {} if before is None else before.ended
        if verb_of(self.verb).is_end:
            return {**ended, **dict.fromkeys(self.tasks, self.generation)}
        has_moved = before is None or self.placement.seats != before.placement.seats
        started = {*self.tasks, *(str(task) for task in self.placement.seats if has_moved and task.role in MOVABLE)}
        return {task: generation for task, generation in ended.items() if task not in started}


class Agreement:
    """Newest command of a cluster, read and replaced by one agent."""

    def __init__(self, spec: ClusterSpec, seat: Address, register: Register) -> None:
        self._spec, self._seat, self._register = spec, seat, register
        self._why_neither_alone = electorate_of(spec).why_neither_alone

    async def newest(self) -> AgreedCommand | None:
        """Return the newest command, None before the first. Raises Undecided where no majority answers."""
        try:
            return self._parsed((await self._register.read()).value)
        except NoMajority as error:
            raise self._undecided(error) from None

    async def agree(
        self,
        intent: Intent,
        placement: Placement,
        known: Placement,
        failed_in: int | None,
        counts: RecoveryCounts | None = None,
    ) -> None:
        """Make a command the newest one.

        Args:
            intent: the command.
            placement: where it has the tasks.
            known: the newest placement that this agent knows.
            failed_in: generation in which the tasks failed, where a failure is the reason of the command.
            counts: the counts with this command.

        Raises:
            Overtaken: another command came first, or has placed the tasks anew.
            TasksEnded: a command has ended the tasks since they failed.
            Undecided: no majority answers, or whether it has agreed is not known.
        """
        wanted = AgreedCommand(self._seat, intent.verb, intent.tasks, intent.generation, placement)
        sent = "" if counts is None else counts.sent(steady_time())

        def after(value: bytes) -> bytes:
            before = self._parsed(value)
            if before == wanted:
                return value
            if before is not None:
                _refuse(before, wanted, known, failed_in)
            return _encoded(replace(wanted, ended=wanted.ended_after(before)), sent)

        try:
            await self._register.change(after)
        except NoMajority as error:
            raise self._undecided(error) from None

    def _undecided(self, error: NoMajority) -> Undecided:
        return Undecided("; ".join(filter(None, (str(error), self._why_neither_alone))))

    def _parsed(self, value: bytes) -> AgreedCommand | None:
        """Return the command of a register's value. Raises GangError for one that this agent cannot read."""
        if not value:
            return None
        try:
            given = _decoded(value)
            generation, tasks = int(given["generation"]), tuple(map(str, given["tasks"]))
            placement = parse_placement(str(given["placement"]), self._spec)
            counts = received_counts(str(given.get("counts", "")), steady_time())
            command = AgreedCommand(Address(*given["by"]), str(given["verb"]), tasks, generation, placement, counts)
            if "ended" not in given:  # an earlier version knows only what the newest command has ended
                return replace(command, ended=command.ended_after(None))
            return replace(command, ended={str(task): int(number) for task, number in given["ended"].items()})
        except (ValueError, KeyError, TypeError, zlib.error, PlacementError) as error:
            raise GangError(
                f"the agents have agreed on what this agent cannot read ({error}): give all agents the same cluster "
                "file, and one version"
            ) from None


def _refuse(before: AgreedCommand, wanted: AgreedCommand, known: Placement, failed_in: int | None) -> None:
    """Raise Overtaken where `wanted` may not follow `before`."""
    ended = max((before.ended.get(task, 0) for task in wanted.tasks), default=0)
    if failed_in is not None and ended > failed_in:
        raise TasksEnded(f"a stop in generation {ended} has ended them")
    if before.placement.is_newer(known):
        raise Overtaken(f"tasks were placed anew in generation {before.placement.generation}: ask its lead's agent")
    if before.order >= wanted.order:
        raise Overtaken(f"the agent at {before.by} gave a command of generation {before.generation} at the same time")


def _encoded(command: AgreedCommand, counts: str) -> bytes:
    document = {
        "by": [command.by.host, command.by.port],
        "verb": command.verb,
        "tasks": command.tasks,
        "generation": command.generation,
        "placement": command.placement.to_json(),
        "counts": counts,
        "ended": dict(command.ended),
    }
    return zlib.compress(json.dumps(document).encode())


def _decoded(value: bytes) -> Any:
    unpacking = zlib.decompressobj()
    text = unpacking.decompress(value, _LARGEST)
    if not unpacking.eof:
        raise ValueError(f"more than {_LARGEST} bytes, or cut off")
    return json.loads(text)
