"""Simulate clusters whose agents vote, each by its seed, and print what became of them.

The same seed gives the same cluster: --seed repeats one of the table.
"""

from __future__ import annotations

import argparse
import sys
import time

from consensus.simulation import Outcome, simulate

HEAD = """\
| seed | hosts | changes and reads | done | unknown | cuts | ends of agents | lost disks | as it must be |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |"""


def main() -> int:
    """Print a row for each seed, and return 1 if one is not as it must be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, metavar="N", help="number of seeds (100, with --seed 1)")
    parser.add_argument("--seed", type=int, metavar="S", help="first seed (0)")
    flags = parser.parse_args()
    first = flags.seed or 0
    number = flags.seeds or (100 if flags.seed is None else 1)
    began, wrong = time.monotonic(), 0
    print(HEAD)
    for seed in range(first, first + number):
        outcome = simulate(seed)
        wrong += bool(outcome.faults)
        print(row(outcome), flush=True)
    print(f"{number} seeds, {wrong} not as they must be, {time.monotonic() - began:.0f} s", file=sys.stderr)
    return min(wrong, 1)


def row(outcome: Outcome) -> str:
    counts = (outcome.seed, outcome.hosts, outcome.operations, outcome.done, outcome.unknown)
    cells = (*counts, *outcome.troubles.values(), "; ".join(outcome.faults) or "yes")
    return "| " + " | ".join(map(str, cells)) + " |"


if __name__ == "__main__":
    sys.exit(main())
