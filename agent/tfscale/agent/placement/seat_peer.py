"""Seats of other agents: asked for their reports, and given new placements."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterable, Mapping

import grpc
import grpc.aio
from tfscale.agent import wire
from tfscale.agent.placement.seat import SeatReport
from tfscale.core.cluster.cluster_spec import Address, ClusterSpec
from tfscale.core.cluster.many_questions import ask_each
from tfscale.core.cluster.placement.file_digests import NO_PLACEMENTS
from tfscale.core.cluster.placement.placement import Placement, PlacementError, parse_placement
from tfscale.core.cluster.security import ChannelOpener
from tfscale.core.cluster.task_identity import TaskIdentity
from tfscale.core.records.task_status import Reason
from tfscale.v1 import placement_pb2, placement_pb2_grpc

QUICK = 1.0
"""Seconds for a question to an agent that may not be there."""
_PLACE = 6.0
"""Seconds for an agent to write a placement down, for whose disk it waits 5 s."""
_TRIAL = 12.0
"""Seconds for an agent to try whether it could start a task: it waits 5 s for each of two disks."""
_WAVE, _ENOUGH, _MOST_ASKED = 8, 4, 64
"""Limits of the questions at an agent's start: agents asked in parallel, answers that suffice, agents asked in all."""


class SeatPeer:
    """One seat of another agent. A connection is made for each question: they are rare."""

    def __init__(self, spec: ClusterSpec, run: str, seat: Address, opener: ChannelOpener) -> None:
        self._spec, self._seat, self._opener = spec, seat, opener
        self._to = wire.identity_message(TaskIdentity(run, "", spec.fingerprint))

    async def ask(self, *, tries: bool = False) -> SeatReport | None:
        """Return the agent's report, with `tries` after a trial of a start; None without an answer in time."""
        request = placement_pb2.SeatRequest(to=self._to, seat=str(self._seat), tries=tries)
        patience = _TRIAL if tries else QUICK
        async with self._opener.open(self._seat) as channel:
            try:
                return wire.seat_record(await placement_pb2_grpc.PlacementStub(channel).Seat(request, timeout=patience))
            except grpc.aio.AioRpcError as error:
                knows_none = error.code() is grpc.StatusCode.UNIMPLEMENTED
                return SeatReport("", "", file=NO_PLACEMENTS) if knows_none else None

    async def place(self, placement: Placement, reason: Reason) -> str:
        """Send the agent a placement; return why the agent refused it, empty where it did not."""
        request = placement_pb2.PlaceRequest(to=self._to, seat=str(self._seat), placement=placement.to_json())
        request.reason, request.restarted_for = reason.text, reason.restarted_for
        async with self._opener.open(self._seat) as channel:
            try:
                await placement_pb2_grpc.PlacementStub(channel).Place(request, timeout=_PLACE)
            except grpc.aio.AioRpcError as error:
                return error.details() or error.code().name
        return ""


async def ask_all(
    seats: Mapping[Address, SeatPeer], which: Iterable[Address], *, tries: bool = False
) -> dict[Address, SeatReport]:
    """Return the reports of those seats that answer; `tries` as in `SeatPeer.ask`."""
    asked = tuple(which)
    answers = await ask_each(lambda seat: seats[seat].ask(tries=tries), asked)
    return {seat: answer for seat, answer in zip(asked, answers, strict=True) if answer is not None}


async def ask_some(seats: Mapping[Address, SeatPeer], first: Address | None) -> list[SeatReport]:
    """Return the reports of some seats, `first` before others: of a thousand starting agents not each asks all."""
    others = [seat for seat in seats if seat != first]
    random.shuffle(others)
    order = [seat for seat in (first, *others) if seat is not None and seat in seats][:_MOST_ASKED]
    reports: list[SeatReport] = []
    for begin in range(0, len(order), _WAVE):
        reports += (await ask_all(seats, order[begin : begin + _WAVE])).values()
        if len(reports) >= _ENOUGH:
            break
    return reports


def newest_placement(reports: Iterable[SeatReport], spec: ClusterSpec) -> Placement | None:
    """Return the newest placement that any of these seats knows, None without a readable one."""
    known = placements({report.placement for report in reports}, spec).values()
    return max(known, key=lambda placement: placement.order, default=None)


def placements(texts: Iterable[str], spec: ClusterSpec) -> dict[str, Placement]:
    """Return the placements in these texts, most of which are equal: parsing a thousand tasks takes 15 ms."""
    known = {}
    for text in texts:
        with contextlib.suppress(PlacementError):  # of an agent with another cluster file, which says so itself
            known[text] = parse_placement(text, spec)
    return known
