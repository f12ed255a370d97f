"""Votes of one voter, and what is on its disk."""

from __future__ import annotations

from pathlib import Path

import pytest
from consensus.local_voters import ELECTORATE, NAMES, LocalVoters
from tfscale.agent.consensus.ballot import NO_BALLOT, Ballot
from tfscale.agent.consensus.decision import EMPTY
from tfscale.agent.consensus.vote_journal import VoteFile, VoteJournal, VoteJournalError
from tfscale.agent.consensus.votes import (
    Abstention,
    Accept,
    Acceptance,
    Introduce,
    Introduction,
    Prepare,
    Promise,
    Refusal,
)

A, B, _ = NAMES
FIRST, SECOND, THIRD = (Ballot(number, "p/1") for number in (1, 2, 3))
ONE = EMPTY.changed("c1", b"one")


@pytest.fixture
async def voters(tmp_path: Path) -> LocalVoters:
    voters = LocalVoters(tmp_path)
    await voters.found()
    return voters


async def test_a_promise_holds_after_a_restart_and_an_older_ballot_is_refused(voters: LocalVoters) -> None:
    life = voters.voters[A].life
    assert await voters.voters[A].ask(Prepare(SECOND)) == Promise(life, NO_BALLOT, EMPTY)
    voters.restart(A)
    assert await voters.voters[A].ask(Prepare(FIRST)) == Refusal(SECOND)
    assert await voters.voters[A].ask(Accept(FIRST, life, ONE)) == Refusal(SECOND)
    assert voters.voters[A].life == life


async def test_of_two_ballots_with_one_number_the_name_decides(voters: LocalVoters) -> None:
    assert isinstance(await voters.voters[A].ask(Prepare(Ballot(1, "b"))), Promise)
    assert await voters.voters[A].ask(Prepare(Ballot(1, "a"))) == Refusal(Ballot(1, "b"))


async def test_what_was_accepted_is_told_after_a_restart(voters: LocalVoters) -> None:
    life = voters.voters[A].life
    await voters.voters[A].ask(Prepare(FIRST))
    assert await voters.voters[A].ask(Accept(FIRST, life, ONE)) == Acceptance()
    voters.restart(A)
    assert await voters.voters[A].ask(Prepare(SECOND)) == Promise(life, FIRST, ONE)


async def test_a_ballot_that_was_not_promised_in_this_life_is_not_accepted(voters: LocalVoters) -> None:
    life = voters.voters[A].life
    assert await voters.voters[A].ask(Accept(FIRST, life, ONE)) == Refusal(NO_BALLOT)
    await voters.voters[A].ask(Prepare(FIRST))
    assert await voters.voters[A].ask(Accept(FIRST, "another", ONE)) == Refusal(FIRST)


async def test_a_voter_whose_journal_is_gone_abstains_in_another_life(voters: LocalVoters) -> None:
    life = voters.voters[A].life
    voters.restart(A, has_lost=True)
    assert await voters.voters[A].ask(Prepare(FIRST)) == Abstention()
    assert await voters.voters[A].ask(Accept(FIRST, life, ONE)) == Abstention()
    said = await voters.voters[A].ask(Introduce())
    assert said == Introduction(voters.voters[A].life, False, ()) and voters.voters[A].life != life
    said_life = voters.voters[A].life
    voters.restart(A)
    assert voters.voters[A].life == said_life


async def test_a_vote_that_cannot_be_written_is_none(voters: LocalVoters) -> None:
    new = voters.file(A).with_name("a.json.new")
    new.mkdir()
    with pytest.raises(VoteJournalError, match="cannot be written"):
        await voters.voters[A].ask(Prepare(SECOND))
    new.rmdir()
    assert isinstance(await voters.voters[A].ask(Prepare(FIRST)), Promise)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"version": 1, "life": "x"}'])
def test_a_damaged_journal_is_not_taken_for_a_new_one(voters: LocalVoters, text: str) -> None:
    voters.file(A).write_text(text)
    with pytest.raises(VoteJournalError, match=r"a\.json: cannot be read .*: remove it, and this agent votes again"):
        voters.read(A)


async def test_a_journal_in_which_a_digit_has_changed_is_not_believed(voters: LocalVoters) -> None:
    await voters.voters[A].ask(Prepare(Ballot(12, "p")))
    text = voters.file(A).read_text()
    voters.file(A).write_text(text.replace("[12,", "[13,"))
    with pytest.raises(VoteJournalError, match="its checksum is wrong"):
        voters.read(A)
    voters.file(A).write_text(text[: text.index(', "crc32"')] + "}")
    with pytest.raises(VoteJournalError, match="it has no checksum"):
        voters.read(A)


async def test_a_journal_of_other_voters_is_refused(voters: LocalVoters) -> None:
    with pytest.raises(VoteJournalError, match="is of other voters than those of the cluster file"):
        VoteJournal(VoteFile(voters.file(A)), "00000000", "x")
    assert VoteJournal(VoteFile(voters.file(A)), ELECTORATE.fingerprint, "x").entry.is_voting


async def test_a_journal_is_for_its_user_alone(voters: LocalVoters) -> None:
    assert voters.file(B).stat().st_mode & 0o777 == 0o600
