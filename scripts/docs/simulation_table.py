"""Simulate clusters, each by its seed, and print what became of them.

votes: voters and their registers. agents: whole agents with their tasks, a spare and an operator. The same seed gives
the same cluster: --seed repeats one of the table, and --log prints what its agents say.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from consensus.simulation import simulate
from simulated.simulated_agents import simulate_agents
from simulated.stories import STORIES


class Outcome(Protocol):
    """Result of one seed."""

    faults: list[str]

    def row(self) -> Mapping[str, object]:
        """Return the cells of its row by their columns."""


def main() -> int:
    """Print a row for each seed, and return 1 if one is not as it must be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=["votes", "agents"], help="what is simulated")
    parser.add_argument("--seeds", type=int, metavar="N", help="number of seeds (100, with --seed 1)")
    parser.add_argument("--seed", type=int, metavar="S", help="first seed (0)")
    parser.add_argument("--story", choices=STORIES, help="agents: a known fault instead of faults by chance")
    parser.add_argument("--log", action="store_true", help="agents: print their logs in virtual seconds")
    flags = parser.parse_args()
    first = flags.seed or 0
    number = flags.seeds or (100 if flags.seed is None else 1)
    run = simulate if flags.kind == "votes" else told(flags.story, flags.log)
    began, wrong, head = time.monotonic(), 0, False
    for seed in range(first, first + number):
        outcome = run(seed)
        wrong += bool(outcome.faults)
        cells = {"seed": seed, **outcome.row(), "as it must be": "; ".join(outcome.faults) or "yes"}
        if not head:
            head = True
            print(line(cells), line(["---"] * len(cells)), sep="\n")
        print(line(cells.values()), flush=True)
    print(f"{number} seeds, {wrong} not as they must be, {time.monotonic() - began:.0f} s", file=sys.stderr)
    return min(wrong, 1)


def told(story: str | None, is_logged: bool) -> Callable[[int], Outcome]:
    """Return the simulation of whole agents by a seed."""
    tell = print if is_logged else None
    if story is None:
        return lambda seed: simulate_agents(seed, tell=tell)
    known = STORIES[story]
    return lambda seed: simulate_agents(seed, known.story, tell, **known.policy)


def line(cells: Iterable[object]) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


if __name__ == "__main__":
    sys.exit(main())
