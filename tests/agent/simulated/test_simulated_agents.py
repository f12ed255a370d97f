"""Histories of simulated clusters of whole agents: no role twice, a stop is a stop, and the gang trains in the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

import pytest
from simulated.simulated_agents import Outcome, simulate_agents
from simulated.stories import STORIES
from tfscale.agent.cluster import led_commands
from tfscale.agent.cluster.gang import Gang
from tfscale.agent.placement import agreement
from tfscale.agent.placement.mover import Mover

SEEDS = 6
"""Seeds, 0.7 s each. `scripts/simulate agents --seeds 1000` runs more."""
FIRST = 0


def test_no_seed_has_a_role_twice_or_a_stop_undone_and_each_gang_trains_in_the_end() -> None:
    outcomes = [simulate_agents(seed) for seed in range(FIRST, FIRST + SEEDS)]
    assert {outcome.seed: outcome.faults for outcome in outcomes if outcome.faults} == {}
    troubles = sum((Counter(outcome.troubles) for outcome in outcomes), Counter())
    assert all(troubles[kind] for kind in ("cut", "kill", "crash", "failure", "order")), troubles
    assert sum(outcome.generations for outcome in outcomes) > SEEDS


@pytest.mark.parametrize("name", STORIES)
def test_a_known_fault_is_mended(name: str) -> None:
    outcome = told(name, FIRST)
    assert outcome.faults == [], outcome.notes


def test_a_seed_gives_the_same_each_time() -> None:
    assert simulate_agents(3) == simulate_agents(3)


def told(name: str, seed: int) -> Outcome:
    known = STORIES[name]
    return simulate_agents(seed, known.story, **known.policy)


async def nothing(*_: Any) -> None:
    """Do nothing."""


PLANTS: dict[str, tuple[str, Callable[[], AbstractContextManager[Any]]]] = {
    "a start that is not confirmed": ("lead cut off before it starts", lambda: patch.object(Mover, "confirm", nothing)),
    "a first start that asks nobody": ("host boots before its network", lambda: patch.object(Mover, "learn", nothing)),
    "a stop that is forgotten": (
        "stop, then a lost disk",
        lambda: patch.object(agreement.AgreedCommand, "ended_after", lambda *_: {}),
    ),
    "an order that does not wait for who leads": (
        "order while the lead is away",
        lambda: patch.object(led_commands, "SILENT", 0.0),
    ),
    "a placement that only the lead tells": (
        "lead moves to an agent that is not told",
        lambda: patch.object(Gang, "leads_now", nothing),
    ),
}
"""Broken rules, each with the story that finds it."""


@pytest.mark.parametrize("rule", PLANTS)
def test_each_broken_rule_is_found(rule: str) -> None:
    name, plant = PLANTS[rule]
    with plant():
        assert any(told(name, seed).faults for seed in range(20))
