"""Questions to other seats."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tfscale.agent.placement.seat import SeatReport
from tfscale.agent.placement.seat_peer import ask_all, ask_some, newest_placement
from tfscale.core.cluster.cluster_spec import Address
from tfscale.core.cluster.file.cluster_file import parse_cluster
from tfscale.core.cluster.placement.placement import Placement, file_placement

SPEC = parse_cluster({"cluster": {"worker": [f"h{n}:1" for n in range(1000)]}}, name="t", where="t", base=Path())
NEWEST = Placement(5, SPEC.agents)


class FakePeer:
    """A seat that knows a placement, or does not answer."""

    def __init__(self, asked: list[Address], seat: Address, known: Placement | None) -> None:
        self.asked, self.seat, self.known = asked, seat, known

    async def ask(self, *, tries: bool = False) -> SeatReport | None:
        assert not tries
        self.asked.append(self.seat)
        return None if self.known is None else SeatReport("", self.known.to_json())


def peers(asked: list[Address], known: Placement | None) -> Any:
    return {seat: FakePeer(asked, seat, known) for seat in SPEC.agents.values()}


async def test_an_agent_that_starts_asks_the_lead_first_and_only_some_others() -> None:
    asked: list[Address] = []
    lead = SPEC.agents[SPEC.lead]
    reports = await ask_some(peers(asked, NEWEST), lead)
    assert asked[0] == lead and len(asked) == 8
    assert newest_placement(reports, SPEC) == NEWEST


async def test_where_nobody_answers_it_does_not_ask_for_ever() -> None:
    asked: list[Address] = []
    assert await ask_some(peers(asked, None), None) == []
    assert len(asked) == 64


async def test_the_newest_placement_counts_and_one_that_cannot_be_read_does_not() -> None:
    asked: list[Address] = []
    few = list(SPEC.agents.values())[:2]
    reports = list((await ask_all(peers(asked, file_placement(SPEC)), few)).values())
    assert asked == few
    assert newest_placement([*reports, SeatReport("", "{"), SeatReport("", NEWEST.to_json())], SPEC) == NEWEST
    assert newest_placement([SeatReport("", "{")], SPEC) is None
