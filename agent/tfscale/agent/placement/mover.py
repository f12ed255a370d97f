"""Restarts after which tasks sit on other agents: without a host, onto a spare, on fewer workers, and back again."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from tfscale.agent.cluster.gang import Busy, Counting, Gang, GangError, Overtaken, Superseded
from tfscale.agent.cluster.journal import Intent
from tfscale.agent.cluster.operation import Operation
from tfscale.agent.cluster.recovery_counts import RecoveryCounts
from tfscale.agent.placement.agreement import AgreedCommand, Agreement
from tfscale.agent.placement.seat import Seat, SeatReport
from tfscale.agent.placement.seat_peer import SeatPeer, ask_all, newest_placement, placements
from tfscale.agent.settings import AgentSettings
from tfscale.core.cluster.cluster_spec import Address
from tfscale.core.cluster.placement.file_digests import differing_parts
from tfscale.core.cluster.placement.place_rule import MOVABLE, moves, place_tasks, seats_on
from tfscale.core.cluster.placement.placement import Placement, PlacementError, file_spec, parse_placement
from tfscale.core.cluster.task import Role, Task
from tfscale.core.errors import TfscaleError
from tfscale.core.records.task_status import Reason
from tfscale.core.text import listing

_logger = logging.getLogger(__name__)
_LOOK = 10.0
"""Seconds between two looks at seats with an older placement."""
_MOST_UNFIT = 3
"""Agents that a refusal names, each with the reason why it can hold no task."""
_AGAIN = 1.0
"""Seconds between two questions for the newest command while no majority answers."""
_NOT_TRIED = "it has not told in time whether it could start a task: look at its disks"
_STABLE = 3
"""Looks in a row in which an agent must answer, or be missing, before the gang is placed anew, which is a restart."""


class Mover:
    """Decisions of one agent about commands and placements. It is the `placer` of its gang.

    `is_running` tells whether the own task runs: a gang that was stopped on request does not grow.
    """

    def __init__(
        self,
        settings: AgentSettings,
        seat: Seat,
        seats: Mapping[Address, SeatPeer],
        agreement: Agreement,
        gang: Gang,
        is_running: Callable[[], bool],
    ) -> None:
        self._spec, self._seat, self._seats, self._gang = settings.cluster, seat, seats, gang
        self._agreement, self._is_running = agreement, is_running
        self._recovery = recovery = settings.cluster.recovery
        self._fewest = None if recovery is None else recovery.min_workers
        self._informed: set[Address] = set()
        """Seats that know the placement of now."""
        self._could_grow = 0
        """Looks in a row at which the gang could have been larger."""
        self._missed = 0
        """Looks in a row at which an agent was missing that was to take a task."""
        self._blamed: set[str] = set()
        """Hosts of which a failure was counted because they did not come to take a task in the placement of now."""
        self._refusal = ""

    async def learn(self, tell: Callable[[str], None]) -> AgreedCommand | None:
        """Wait until a majority answers, and return the newest command, None before the first.

        Where it has placed the tasks anew, this agent begins to follow it. `tell` is called with the reason to wait.
        """
        newest = await self._answer(tell)
        if newest is not None and newest.placement.is_newer(self._seat.placement):
            await self._seat.accept(newest.placement, Reason("placed while its agent was not there"))
        return newest

    def expect(self, tasks: Iterable[Task]) -> None:
        """Have the gang go on without the agents of these tasks where they stay away: its start has left them out."""
        left_out = {self._seat.placement.seats[task] for task in tasks}
        self._seat.missing |= left_out
        self._informed -= left_out

    async def newest(self) -> int:
        """Return the generation of the newest command, 0 before the first.

        Where it has placed tasks anew, and this agent did not know, all agents are told: whoever gave the command may
        be gone. Then Overtaken is raised; GangError where no majority answers.
        """
        newest = await self._read()
        if newest is None:
            return 0
        if (placement := newest.placement).is_newer(self._seat.placement):
            await self.hand_over(placement.to_json(), Reason(f"placed anew by the agent at {newest.by}"))
            self.follow()
            raise Overtaken(f"tasks were placed anew in generation {placement.generation}: ask its lead's agent")
        return newest.generation

    async def _read(self) -> AgreedCommand | None:
        """Return the newest command, and go on with its counts."""
        newest = await self._agreement.newest()
        if newest is not None:
            await self._gang.learn(newest.counts)
        return newest

    async def agree(self, intent: Intent, counts: RecoveryCounts, failed_in: int | None) -> None:
        """Have a majority agree on a command and its counts. Raises what Agreement.agree does."""
        now = self._seat.placement
        placement = parse_placement(intent.placement, self._spec) if intent.placement else now
        await self._agreement.agree(intent, placement, now, failed_in, counts)

    async def confirm(self, generation: int) -> None:
        """Wait until a majority knows no newer command than that of this generation. Raises Superseded."""
        newest = await self._answer()
        if newest is not None and newest.generation > generation:
            raise Superseded(f"the agent at {newest.by} has given a newer command, of generation {newest.generation}")

    async def _answer(self, tell: Callable[[str], None] = lambda _: None) -> AgreedCommand | None:
        """Return the newest command as soon as a majority answers; until then `tell` why it waits."""
        refusal = ""
        while True:
            try:
                return await self._read()
            except GangError as error:
                if str(error) != refusal:
                    _logger.warning("waits: %s", error)
                refusal = str(error)
                tell(refusal)
            await asyncio.sleep(_AGAIN)

    async def without(
        self,
        names: Sequence[str],
        reason: Reason,
        expected: int | None = None,
        *,
        keeps_size: bool = False,
        counted: Counting | None = None,
    ) -> Operation:
        """Begin a restart without the seats that `names` mean: hosts, agents' addresses or tasks.

        A gang that `keeps_size` has as many workers as now, whatever `min_workers` allows. Raises PlacementError where
        the others cannot hold all tasks, and what Gang.move raises.
        """
        now = self._seat.placement
        lost = {seat for name in names for seat in seats_on(self._spec, now, name)}
        if idle := [str(seat) for seat in lost if now.task_of(seat) is None]:
            raise PlacementError(f"{listing(sorted(idle))} holds no task")
        reports = await self._reports()
        named = listing(list(names))
        reason = replace(reason, text=f"{reason.text or 'restart by request'}, without {named}")
        workers = sum(task.role is Role.WORKER for task in now.seats)
        fewest = workers if keeps_size else self._fewest
        return await self._move(now, reports, lost, reason, expected, fewest, counted=counted)

    async def gone(self) -> list[Address]:
        """Return the seats with a task that do not answer."""
        others = [seat for seat in self._seat.placement.seats.values() if seat in self._seats]
        there = await ask_all(self._seats, others)
        return [seat for seat in others if seat not in there]

    async def replace(
        self,
        reason: Reason,
        cordoned: Mapping[str, str],
        blamed: set[str],
        failed_in: int,
        counted: Counting | None = None,
    ) -> Operation:
        """Begin a restart without the agents that do not answer, and without these hosts (their reasons by name).

        The tasks failed in generation `failed_in`. A failure of the hosts that do not answer is counted, once for all
        calls with this set `blamed`. Raises PlacementError where the other agents cannot hold all tasks, and where
        nothing would change; and what Gang.move raises.
        """
        now = self._seat.placement
        reports = await self._reports()
        if gone := [seat for seat in now.seats.values() if seat not in reports]:
            does, names = "does" if len(gone) == 1 else "do", listing(list(map(str, gone)))
            reason = replace(reason, text=f"{reason.text}, without {names}, which {does} not answer")
            cordoned = {**cordoned, **await self._blame(gone, failed_in, blamed)}
        now = replace(now, cordoned={**now.cordoned, **cordoned})
        return await self._move(now, reports, (), reason, None, self._fewest, failed_in=failed_in, counted=counted)

    async def _blame(self, gone: Collection[Address], generation: int, blamed: set[str]) -> dict[str, str]:
        """Count a failure of the hosts of these seats, unless they were blamed; return those to be cordoned."""
        if self._recovery is None:
            return {}
        hosts = {seat.host for seat in gone} - blamed
        blamed |= hosts
        return await self._gang.blame(sorted(hosts), generation, self._recovery)

    async def uncordon(self, name: str) -> str:
        """Let tasks be placed again on the host that a host, agent's address or task means; return the result in words.

        Raises PlacementError, Busy and JournalError.
        """
        now = self._seat.placement
        host = seats_on(self._spec, now, name)[0].host
        if host not in now.cordoned:
            cordoned = listing(list(now.cordoned)) or "none"
            raise PlacementError(f"{name!r} is not cordoned; cordoned: {cordoned}")
        left = {each: why for each, why in now.cordoned.items() if each != host}
        placement = replace(now, cordoned=left, revision=now.revision + 1)
        await self._gang.forgive(host)
        intent = Intent("uncordon", (), await self.newest(), False, f"{host} uncordoned", placement.to_json())
        await self.agree(intent, self._gang.counts, None)
        await self.hand_over(intent.placement, intent.why)
        done = f"{host} is uncordoned: tasks may be placed there again"
        _logger.info("%s", done)
        return done

    async def hand_over(self, placement: str, reason: Reason) -> None:
        """Send a placement to all agents that answer, to this agent last. Raises JournalError and PlacementError."""
        parsed = parse_placement(placement, self._spec)
        there = await ask_all(self._seats, self._seats)
        refusals = await asyncio.gather(*(self._seats[seat].place(parsed, reason) for seat in there))
        for seat, refusal in zip(there, refusals, strict=True):
            if refusal:
                _logger.warning("the agent at %s does not take its place, and is told again: %s", seat, refusal)
        self._informed = {seat for seat, refusal in zip(there, refusals, strict=True) if not refusal}
        if parsed.generation > self._seat.placement.generation:
            self._blamed = set()
            self._seat.missing = {*parsed.seats.values()} - self._informed - {self._seat.address}
        await self._seat.accept(parsed, reason, leaves=False)

    def follow(self) -> None:
        """Go on as the agent of the task that this seat holds now."""
        self._seat.leave()

    async def keep(self) -> None:
        """Send the placement to agents that come back, while this agent leads; the lead's own also lets the gang grow.

        The lead's agent may be one of those that were not told: it may have had no task before.
        """
        while True:
            try:
                if await self._gang.leads_now():
                    await self._tell_the_others()
                    await self._go_on_without_missing()
                    if not self._gang.lower:
                        await self._grow()
                self._refusal = ""
            except TfscaleError as error:
                if str(error) != self._refusal:
                    _logger.warning("tasks stay where they are: %s", error)
                self._refusal = str(error)
            await asyncio.sleep(_LOOK)

    async def _reports(self) -> dict[Address, SeatReport]:
        """Return the reports of all seats that answer, after a trial of a start in each.

        Where one knows a newer placement, this agent follows that: whoever made it may be gone. Raises GangError then,
        and PlacementError where the agents have different cluster files.
        """
        there = await ask_all(self._seats, self._seats)
        tried, own = await asyncio.gather(ask_all(self._seats, there, tries=True), self._seat.report(tries=True))
        silent = {seat: replace(report, trouble=_NOT_TRIED) for seat, report in there.items()}
        reports = silent | tried | {self._seat.address: own}
        newest = newest_placement(reports.values(), self._spec)
        if newest is not None and newest.is_newer(self._seat.placement):
            await self._seat.accept(newest, Reason("placed by another agent"))
            raise GangError(f"tasks were placed anew in generation {newest.generation}: ask its lead's agent")
        self._refuse_other_files(reports)
        return reports

    def _refuse_other_files(self, reports: Mapping[Address, SeatReport]) -> None:
        """Raise PlacementError where cluster files differ: an agent would refuse its place, or decide otherwise."""
        for seat, report in reports.items():
            if parts := differing_parts(self._seat.file, report.file):
                raise PlacementError(
                    f"nothing was stopped: the cluster file of the agent at {seat} has another {listing(parts)}: give "
                    "all agents the same file, and start that agent again"
                )

    async def _move(
        self,
        now: Placement,
        reports: Mapping[Address, SeatReport],
        lost: Collection[Address],
        reason: Reason,
        expected: int | None,
        fewest: int | None,
        *,
        failed_in: int | None = None,
        counted: Counting | None = None,
    ) -> Operation:
        others = {seat: report.trouble for seat, report in reports.items() if seat not in lost}
        try:
            seats = place_tasks(self._spec, now, [seat for seat, why in others.items() if not why], fewest)
        except PlacementError as error:
            unfit = [f"{seat} can take none: {why}" for seat, why in others.items() if why][:_MOST_UNFIT]
            raise PlacementError("; ".join([str(error), *unfit])) from None
        if seats == now.seats:
            raise PlacementError("all tasks stay where they are")
        for host in set(now.cordoned) - set(self._seat.placement.cordoned):
            _logger.warning(
                "%s is cordoned (%s): no task is placed there until it is uncordoned", host, now.cordoned[host]
            )
        # The agent of a task that answers stops it; one that does not, or has not taken the task, learns it later.
        held = {task for task, seat in now.seats.items() if seat in reports and reports[seat].task == str(task)}
        tasks = tuple(task for task in now.seats if task in held and task.role in MOVABLE)
        return await self._gang.move(
            tasks,
            replace(reason, text=f"{reason.text}: {moves(now.seats, seats)}"),
            lambda generation: Placement(generation, seats, now.cordoned).to_json(),
            expected,
            failed_in,
            counted=counted,
        )

    async def _tell_the_others(self) -> None:
        own = self._seat.placement
        reports = await ask_all(self._seats, [seat for seat in self._seats if seat not in self._informed])
        texts = placements({report.placement for report in reports.values()}, self._spec)
        newest = max(texts.values(), key=lambda placement: placement.order, default=own)
        if newest.is_newer(own):
            await self._seat.accept(newest, Reason("placed by another agent"))
            return
        for seat, report in reports.items():
            known = texts.get(report.placement)
            if known is not None and (known == own or not await self._seats[seat].place(own, Reason("back again"))):
                self._informed.add(seat)

    async def _go_on_without_missing(self) -> None:
        """Begin a restart without agents that were to take a task but have been absent for a while."""
        missing = self._seat.missing = self._seat.missing - self._informed
        self._missed = self._missed + 1 if missing and self._is_running() else 0
        if self._missed >= _STABLE:
            self._missed = 0
            why = Reason(f"restarted by itself without {listing(sorted(map(str, missing)))}")
            now = self._seat.placement
            now = replace(now, cordoned={**now.cordoned, **await self._blame(missing, now.generation, self._blamed)})
            with contextlib.suppress(Busy):
                await self._move(now, await self._reports(), missing, why, None, self._fewest)

    async def _grow(self) -> None:
        """Begin a restart with more workers, once an agent has been free for a while."""
        now = self._seat.placement
        if not self._vacant(now) or not self._is_running():
            self._could_grow = 0
            return
        held = set(now.seats.values())
        free = [seat for seat in self._seats if seat not in held and seat.host not in now.cordoned]
        if not await ask_all(self._seats, free):
            self._could_grow = 0
            return
        reports = await self._reports()
        usable = [seat for seat, report in reports.items() if not report.trouble]
        placed = place_tasks(self._spec, now, usable, self._fewest)
        self._could_grow = self._could_grow + 1 if len(placed) > len(now.seats) else 0
        if self._could_grow >= _STABLE:
            self._could_grow = 0
            with contextlib.suppress(Busy):
                await self._move(now, reports, (), Reason("restarted by itself with more workers"), None, self._fewest)

    def _vacant(self, now: Placement) -> list[Task]:
        return [task for task in file_spec(self._spec).tasks if task not in now.seats]
