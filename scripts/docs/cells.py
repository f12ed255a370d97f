"""Tables of docs/reference/cells.md: error of each phase under known delays, by strategy, loop and Keras version.

    .venv/bin/python scripts/docs/cells.py [--results FILE] [--strategy mirrored ...] [--loop fit ...] [--keras ...]

Trains each cell with real delays. Needs root and `ip` for the network namespaces whose link is slowed; without them the
delays of the network are left out. --results keeps the results, so that parts can run one by one. Problems go to
stderr; ends with 1 where there is one.
"""

from __future__ import annotations

import sys
from pathlib import Path

SHARED = Path(__file__).parents[2] / "tests"
sys.path[:0] = [str(SHARED / "harness"), str(SHARED / "e2e")]

from cells.cell_group import run_group  # noqa: E402
from cells.cell_judge import judged  # noqa: E402
from cells.cell_matrix import ABSENT, KERAS, LOOPS, STRATEGIES, loops  # noqa: E402
from table_command import leave_by_exception, read_results, table_parser, write_results  # noqa: E402


def main() -> int:
    parser = table_parser(__doc__)
    parser.add_argument("--strategy", nargs="+", choices=STRATEGIES, default=STRATEGIES)
    parser.add_argument("--loop", nargs="+", choices=LOOPS, default=LOOPS)
    parser.add_argument("--keras", nargs="+", choices=KERAS, default=list(KERAS))
    parser.add_argument("--verbose", action="store_true", help="each delay on stderr, and the log of a failed program")
    chosen = parser.parse_args()
    leave_by_exception()
    results = read_results(chosen.results)
    for strategy in chosen.strategy:
        for keras in chosen.keras:
            run(
                strategy,
                keras,
                [loop for loop in loops(strategy, keras) if loop in chosen.loop],
                results,
                chosen.verbose,
            )
            write_results(chosen.results, results)
    for keras in chosen.keras:
        print(table(keras, results))
    return 1 if any(result["problems"] for result in results.values()) else 0


def run(strategy: str, keras: str, chosen: list[str], results: dict[str, dict[str, object]], verbose: bool) -> None:
    if not chosen:
        return
    group = run_group(strategy, KERAS[keras], chosen)
    for loop in chosen:
        verdict = judged(group, loop)
        name = f"{strategy} {loop} {keras}"
        results[name] = {
            "worst": verdict.worst,
            "shown": verdict.shown,
            "problems": verdict.problems,
            "second": verdict.is_second,
        }
        print(f"{name}: {'; '.join(verdict.problems) or 'well'}", file=sys.stderr, flush=True)
        for delayed, (delay, shown) in verdict.shown.items() if verbose else ():
            print(f"    {delayed:10} {delay:6.1f} {shown:6.1f} ms", file=sys.stderr, flush=True)
        if verbose and group.loops[loop].error:
            print(group.log, file=sys.stderr)


def table(keras: str, results: dict[str, dict[str, object]]) -> str:
    lines = [f"| {keras} | " + " | ".join(STRATEGIES) + " |", "| --- |" + " --- |" * len(STRATEGIES)]
    notes: list[str] = []
    for loop in LOOPS:
        cells = [cell(strategy, loop, keras, results, notes) for strategy in STRATEGIES]
        lines.append(f"| `{loop}` | " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", *(f"{number}. {note}" for number, note in enumerate(notes, 1)), ""])


def cell(strategy: str, loop: str, keras: str, results: dict[str, dict[str, object]], notes: list[str]) -> str:
    reason = ABSENT.get((strategy, loop, keras))
    if reason is not None:
        if reason not in notes:
            notes.append(reason)
        return f"- ({notes.index(reason) + 1})"
    result = results.get(f"{strategy} {loop} {keras}")
    if result is None:
        return "not run"
    return "**wrong**" if result["problems"] else f"{result['worst']:+.0%}{'*' * bool(result.get('second'))}"


if __name__ == "__main__":
    sys.exit(main())
