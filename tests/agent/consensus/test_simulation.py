"""Histories of simulated clusters: one order explains each, and a change succeeds once all is well."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import date

import pytest
from consensus.simulation import LazyDisk, Plant, simulate
from tfscale.agent.consensus.joining import Joining
from tfscale.agent.consensus.vote_journal import VoteJournal
from tfscale.agent.consensus.voter import Voter
from tfscale.agent.consensus.votes import Accept, Acceptance, Answer, Question

SEEDS, PARTS = 240, 4
"""Seeds of a day, 50 ms each, and tests among which they are divided. `scripts/simulate votes` runs more."""
FIRST = date.today().toordinal() % 1000 * SEEDS


@pytest.mark.parametrize("part", range(PARTS))
def test_no_seed_of_the_day_contradicts_one_order_and_each_ends_with_a_change(part: int) -> None:
    outcomes = [simulate(seed) for seed in range(FIRST + part, FIRST + SEEDS, PARTS)]
    assert {outcome.seed: outcome.faults for outcome in outcomes if outcome.faults} == {}
    assert sum(outcome.done for outcome in outcomes) > sum(outcome.unknown for outcome in outcomes)
    for kind in ("cuts", "ends", "lost disks"):
        assert sum(outcome.troubles[kind] for outcome in outcomes) > len(outcomes) / 2


def test_a_seed_gives_the_same_each_time() -> None:
    assert [simulate(seed) for seed in range(10)] == [simulate(seed) for seed in range(10)]


class AcceptsUnasked(Voter):
    """Voter that accepts what it has not promised."""

    async def ask(self, question: Question) -> Answer:
        if not isinstance(question, Accept):
            return await super().ask(question)
        entry = replace(self._journal.entry, accepted=question.ballot, decision=question.decision)
        await self._journal.put(entry)
        return Acceptance()


class TakesSilenceForNews(Joining):
    """Start of a voter that takes those that do not answer for new."""

    async def run(self) -> None:
        await asyncio.sleep(1)
        await self._voter.found(())


class EmptyWhenLost(Voter):
    """Voter that votes at once with whatever journal it has."""

    def __init__(self, journal: VoteJournal) -> None:
        journal.entry = replace(journal.entry, is_voting=True)
        super().__init__(journal)


@pytest.mark.parametrize(
    "plant",
    [
        Plant(voter=AcceptsUnasked),
        Plant(disk=LazyDisk),
        Plant(joining=TakesSilenceForNews),
        Plant(voter=EmptyWhenLost),
    ],
    ids=["accepts unasked", "promise not on disk", "silence is news", "empty when lost"],
)
def test_each_broken_rule_is_found(plant: Plant) -> None:
    assert any(simulate(seed, plant).faults for seed in range(200))
