"""All states of small models: no two decisions of one version, and none that was told is undone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from consensus.model import Model, Rules, Violation, answered
from tfscale.agent.consensus.voter import VoterEntry
from tfscale.agent.consensus.votes import Accept, Acceptance, Answer, Prepare, Question

TWO = {"run": (1,), "stop": (2,)}
LATE = {"run": (2,), "stop": (3,)}
AGAIN = {"run": (1, 2), "stop": ()}


def report(model: Model) -> None:
    print(f"{model.states()} states")


def test_two_proposers_over_a_network_that_may_do_anything_agree() -> None:
    report(Model(TWO))


def test_a_proposer_that_tries_again_makes_its_change_once() -> None:
    report(Model(AGAIN))


def test_two_proposers_agree_while_a_voter_loses_its_journal_and_begins_again() -> None:
    report(Model({"run": (1,), "stop": (3,)}, learning=(2,), losses=1))


def test_voters_that_are_all_new_begin_as_one() -> None:
    report(Model({"run": (1,), "stop": ()}, is_founded=False))


@pytest.mark.slow
@pytest.mark.parametrize(("ballots", "learning"), [(LATE, (1,)), (AGAIN, (1,)), ({"run": (1, 2), "stop": (3,)}, ())])
def test_larger_models_agree(ballots: dict[str, tuple[int, ...]], learning: tuple[int, ...]) -> None:
    report(Model(ballots, learning=learning, losses=len(learning)))


def accepts_unasked(entry: VoterEntry, question: Question) -> tuple[VoterEntry, VoterEntry, Answer]:
    """Answer as a voter that accepts what it has not promised."""
    if not isinstance(question, Accept):
        return answered(entry, question)
    accepted = replace(entry, accepted=question.ballot, decision=question.decision)
    return accepted, accepted, Acceptance()


def forgets_promises(entry: VoterEntry, question: Question) -> tuple[VoterEntry, VoterEntry, Answer]:
    """Answer as a voter whose promises are not on its disk."""
    memory, disk, answer = answered(entry, question)
    return memory, entry if isinstance(question, Prepare) else disk, answer


def ignores_lives(entry: VoterEntry, question: Question) -> tuple[VoterEntry, VoterEntry, Answer]:
    """Answer as a voter that accepts what a lost journal has promised."""
    return answered(entry, replace(question, life=entry.life) if isinstance(question, Accept) else question)


@pytest.mark.parametrize(
    "model",
    [
        Model(TWO, rules=Rules(accepts_unasked)),
        Model(TWO, rules=Rules(forgets_promises)),
        Model(LATE, learning=(1,), losses=1, rules=Rules(ignores_lives)),
        Model(TWO, losses=1, rules=Rules(is_empty_when_lost=True)),
        Model(TWO, losses=1, rules=Rules(is_silence_news=True)),
        Model(LATE, learning=(1,), losses=1, rules=Rules(asks_all=True)),
    ],
    ids=["accepts unasked", "forgets promises", "ignores lives", "empty when lost", "silence is news", "asks all"],
)
def test_each_broken_rule_is_found(model: Model) -> None:
    with pytest.raises(Violation) as found:
        model.states()
    print(found.value)
