"""The register over voters with real journals."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from consensus.local_voters import NAMES, LocalVoters
from tfscale.agent.consensus.decision import KEPT_CHANGES, MOST_VALUE, Decision, ValueTooLarge
from tfscale.agent.consensus.register import NoMajority, OutcomeUnknown
from tfscale.agent.consensus.votes import Accept, Answer, Look, Prepare, Question, Silence

A, B, C = NAMES


@pytest.fixture
async def voters(tmp_path: Path) -> LocalVoters:
    voters = LocalVoters(tmp_path)
    await voters.found()
    return voters


def append(text: str) -> Callable[[bytes], bytes]:
    return lambda value: value + text.encode()


class Cut:
    """A voter that loses some answers, or does not hear some questions."""

    def __init__(self, voters: LocalVoters, name: str, *lost: type[Question], hears: bool = True) -> None:
        self._ask, self._lost, self._hears = voters.voters[name].ask, lost, hears
        voters.links[name] = self

    async def ask(self, question: Question) -> Answer:
        is_lost = isinstance(question, self._lost)
        answer = await self._ask(question) if self._hears or not is_lost else None
        return Silence("is cut off") if is_lost or answer is None else answer


async def test_a_change_is_read_by_others_and_after_a_restart_of_all(voters: LocalVoters) -> None:
    assert (await voters.register(A).read()).version == 0
    first = await voters.register(A).change(append("x"))
    assert (first.version, first.value) == (1, b"x")
    second = await voters.register(B).change(append("y"))
    assert (second.version, second.value, len(second.changes)) == (2, b"xy", 2)
    for name in NAMES:
        voters.restart(name)
    assert await voters.register(C).read() == second


async def test_a_read_of_what_all_have_accepted_writes_nothing(voters: LocalVoters) -> None:
    await voters.register(A).change(append("x"))
    await asyncio.sleep(0.2)  # the third voter's disk is not waited for
    before = [voters.file(name).stat().st_mtime_ns for name in NAMES]
    for _ in range(3):
        assert (await voters.register(B).read()).value == b"x"
    assert [voters.file(name).stat().st_mtime_ns for name in NAMES] == before


async def test_a_read_finds_out_what_comes_of_a_change_that_was_left_halfway(voters: LocalVoters) -> None:
    for name in (A, B):
        Cut(voters, name, Accept, hears=name == A)  # one voter has accepted, and nobody heard of it
    voters.silent = {C}
    with pytest.raises(OutcomeUnknown):
        await voters.register(A, patience=0.2).change(append("x"))
    fresh = LocalVoters(voters.file(A).parent)
    fresh.silent = {C}
    assert (await fresh.register(B).read()).value == b"x"
    fresh.silent = {A}
    assert (await fresh.register(C).read()).value == b"x"


async def test_a_value_that_stays_makes_no_new_version(voters: LocalVoters) -> None:
    first = await voters.register(A).change(append("x"))
    assert await voters.register(B).change(lambda value: value) == first


async def test_one_voter_may_be_silent_and_of_two_the_names_are_told(voters: LocalVoters) -> None:
    voters.silent = {B}
    assert (await voters.register(A).change(append("x"))).value == b"x"
    voters.silent = {B, C}
    with pytest.raises(
        NoMajority, match=r"nothing was decided: 2 of 3 agents must agree: b:1: does not answer"
    ) as error:
        await voters.register(A, patience=0.2).change(append("y"))
    assert error.value.silent == (B, C) and not isinstance(error.value, OutcomeUnknown)
    voters.silent = set()
    assert (await voters.register(A).read()).value == b"x"


async def test_changes_of_all_agents_at_once_are_all_made_once(voters: LocalVoters) -> None:
    registers = [voters.register(name, patience=20) for name in NAMES]
    texts = "abcdefghi"
    await asyncio.gather(*(registers[n % 3].change(append(text)) for n, text in enumerate(texts)))
    last = await voters.register(B).read()
    assert (sorted(last.value.decode()), last.version) == (list(texts), len(texts))


async def test_where_the_acceptances_are_lost_the_outcome_is_unknown_and_read_later(voters: LocalVoters) -> None:
    Cut(voters, B, Accept, hears=False)
    Cut(voters, C, Prepare, Accept, Look, hears=False)
    with pytest.raises(OutcomeUnknown, match="whether it was decided is not known, ask again"):
        await voters.register(A, patience=0.2).change(append("x"))
    Cut(voters, B)
    assert (await voters.register(B).read()).value == b"x"


async def test_a_change_that_was_decided_while_its_answers_were_lost_is_found_decided(voters: LocalVoters) -> None:
    Cut(voters, B, Accept)
    Cut(voters, C, Accept)
    assert (await voters.register(A, patience=20).change(append("x"))).version == 1


async def test_a_change_whose_acceptance_was_lost_is_not_made_twice(voters: LocalVoters) -> None:
    Cut(voters, B, Accept, hears=False)
    Cut(voters, C, Prepare, Accept, hears=False)
    changing = asyncio.create_task(voters.register(A, patience=20).change(append("x")))
    await asyncio.sleep(0.3)
    assert not changing.done()
    Cut(voters, B)
    other = await voters.register(B, patience=20).change(append("y"))
    made = await changing
    assert made.value in (b"x", b"xy")  # by who of the two comes first to vote anew
    assert (other.version, other.value) == (2, b"xy") and await voters.register(B).read() == other


async def test_a_change_that_was_overtaken_too_often_is_unknown(voters: LocalVoters) -> None:
    Cut(voters, B, Accept, hears=False)
    Cut(voters, C, Prepare, Accept, hears=False)
    changing = asyncio.create_task(voters.register(A, patience=60).change(append("x")))
    await asyncio.sleep(0.3)
    for name in NAMES:
        Cut(voters, name, Prepare, Accept, hears=False)
    await asyncio.sleep(1.1)
    other = LocalVoters(voters._folder)
    for n in range(KEPT_CHANGES + 1):
        await other.register(B).change(append(str(n % 10)))
    voters.voters = other.voters
    for name in NAMES:
        Cut(voters, name)
    with pytest.raises(OutcomeUnknown, match="others made many changes meanwhile"):
        await changing


async def test_an_error_of_the_function_changes_nothing(voters: LocalVoters) -> None:
    def refuse(_: bytes) -> bytes:
        raise ValueError("somebody else leads")

    await voters.register(A).change(append("x"))
    with pytest.raises(ValueError, match="somebody else leads"):
        await voters.register(A).change(refuse)
    with pytest.raises(ValueTooLarge, match="a value of 65537 bytes is too large: at most 65536"):
        await voters.register(A).change(lambda _: b"x" * (MOST_VALUE + 1))
    assert (await voters.register(B).read()).version == 1


async def test_an_error_after_a_lost_acceptance_is_told_once_the_change_can_no_longer_be_made(
    voters: LocalVoters,
) -> None:
    calls: list[bytes] = []

    def once(value: bytes) -> bytes:
        calls.append(value)
        if len(calls) > 1:
            raise ValueError("no more")
        return b"x"

    Cut(voters, A, Accept, hears=False)
    Cut(voters, B, Accept, hears=False)
    Cut(voters, C, Accept, hears=False)
    changing = asyncio.create_task(voters.register(A, patience=20).change(once))
    await asyncio.sleep(0.2)
    for name in NAMES:
        Cut(voters, name)
    with pytest.raises(ValueError, match="no more"):
        await changing
    assert await voters.register(B).read() == Decision()
