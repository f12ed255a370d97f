"""Begin of voters, the first one and one without their journals."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import pytest
from consensus.local_voters import ELECTORATE, NAMES, LocalVoters
from tfscale.agent.consensus import joining
from tfscale.agent.consensus.joining import Joining
from tfscale.agent.consensus.register import NoMajority
from tfscale.agent.consensus.votes import Introduce

A, B, C = NAMES


@pytest.fixture
def voters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalVoters:
    monkeypatch.setattr(joining, "_AGAIN", 0.05)
    return LocalVoters(tmp_path)


async def join(voters: LocalVoters, *names: str, patience: float = 5.0) -> None:
    joins = [Joining(name, voters.voters[name], ELECTORATE, voters.quorum, Random()).run() for name in names]
    async with asyncio.timeout(patience):
        await asyncio.gather(*joins)


async def test_voters_that_are_all_new_begin(voters: LocalVoters) -> None:
    await join(voters, *NAMES)
    assert (await voters.register(A).change(lambda _: b"x")).version == 1


async def test_silence_is_no_news(voters: LocalVoters) -> None:
    voters.silent = {C}
    with pytest.raises(TimeoutError):
        await join(voters, A, B, patience=0.5)
    with pytest.raises(NoMajority, match="a:1 is new, and waits for the others"):
        await voters.register(A, patience=0.1).read()
    voters.silent = set()
    await join(voters, A, B, C)


async def test_a_voter_that_comes_late_begins_with_the_others(voters: LocalVoters) -> None:
    await voters.voters[C].ask(Introduce())
    await join(voters, A, B)
    await voters.register(A).change(lambda _: b"x")
    voters.silent = {A}
    await join(voters, C)
    voters.silent = set()
    assert (await voters.register(C).read()).value == b"x"


async def test_a_voter_whose_journal_was_lost_learns_from_both_others(voters: LocalVoters) -> None:
    await join(voters, *NAMES)
    voters.silent = {B}
    await voters.register(A).change(lambda _: b"x")
    voters.restart(A, has_lost=True)
    with pytest.raises(TimeoutError):
        await join(voters, A, patience=0.5)
    voters.silent = set()
    await join(voters, A)
    voters.silent = {C}
    assert (await voters.register(B).read()).value == b"x"


async def test_voters_of_which_a_majority_lost_its_journals_do_not_begin_again(voters: LocalVoters) -> None:
    await join(voters, *NAMES)
    await voters.register(A).change(lambda _: b"x")
    voters.restart(A, has_lost=True)
    voters.restart(B, has_lost=True)
    with pytest.raises(TimeoutError):
        await join(voters, A, B, patience=0.5)


async def test_a_single_voter_begins_alone(tmp_path: Path) -> None:
    voters = LocalVoters(tmp_path)
    await Joining(A, voters.voters[A], type(ELECTORATE)((A,)), voters.quorum, Random()).run()
    assert voters.voters[A].is_voting
