"""Tables of docs/reference/compat.md: result of each task with stock TensorFlow and with tfscale, beside one device.

    .venv/bin/python scripts/docs/compat_table.py [--results FILE] [--strategy mirrored ...] [--keras "keras 3" ...]

--results keeps the results, so that parts can run one by one. Ends with 1 where a repaired task gives another result
under tfscale than on one device.
"""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = [str(ROOT / part) for part in ("tests/harness", "tests/trainer", "core", "trainer", "protos")]
sys.path[:0] = SOURCES
os.environ["PYTHONPATH"] = os.pathsep.join(SOURCES)

from compat_run import KERAS, KERAS_3, LEFT_BROKEN, STRATEGIES, Outcome, error, run  # noqa: E402
from table_command import read_results, table_parser, write_results  # noqa: E402

SEEN = ("mirrored", "multi_worker", "parameter_server")
REFERENCE, KERAS_3_REFERENCE = "one_device tf_keras stock", "one_device keras 3 stock"
TOLERANCE = {"overflow": 1e-2}
Results = dict[str, dict[str, Outcome]]


def main() -> int:
    parser = table_parser(__doc__)
    parser.add_argument("--strategy", nargs="*", choices=STRATEGIES, default=list(STRATEGIES))
    parser.add_argument("--keras", nargs="+", choices=KERAS, default=list(KERAS))
    parser.add_argument("--side", nargs="+", choices=("stock", "tfscale"), default=["stock", "tfscale"])
    chosen = parser.parse_args()
    results: Results = read_results(chosen.results)
    for strategy in chosen.strategy:
        for keras in chosen.keras:
            for side in chosen.side:
                if strategy != "one_device" or side == "stock":
                    results[f"{strategy} {keras} {side}"] = run(strategy, keras, repaired=side == "tfscale")
                    print(f"{strategy} {keras} {side}: done", file=sys.stderr, flush=True)
                    write_results(chosen.results, results)
    if REFERENCE in results and KERAS_3_REFERENCE in results:
        results[REFERENCE] |= {task: results[KERAS_3_REFERENCE][task] for task in KERAS_3}
    if REFERENCE not in results:
        print("nothing to compare with: run --strategy one_device --keras tf_keras first", file=sys.stderr)
        return 1
    for keras in chosen.keras:
        print(table(keras, results))
    wrong = [f"{name}: {task}" for name, task in promised(results) if not is_same(name, task, results)]
    print("\n".join(wrong), file=sys.stderr)
    return 1 if wrong else 0


def promised(results: Results) -> list[tuple[str, str]]:
    """List the runs under tfscale, each with a task whose result must be that of one device."""
    runs = {
        f"{strategy} {keras} tfscale": LEFT_BROKEN.get((strategy, keras), ())
        for strategy in STRATEGIES
        for keras in KERAS
    }
    return [(name, task) for name in results if name in runs for task in results[REFERENCE] if task not in runs[name]]


def is_same(name: str, task: str, results: Results) -> bool:
    return cell(name, task, results).startswith("same")


def table(keras: str, results: Results) -> str:
    names = [f"{strategy} {keras} {side}" for strategy in SEEN for side in ("stock", "tfscale")]
    heads = [f"{strategy}, {side}" for strategy in SEEN for side in ("stock", "tfscale")]
    lines = [f"| {keras} | " + " | ".join(heads) + " |", "| --- |" + " --- |" * len(heads)]
    rows = [[f"`{task}`", *(cell(name, task, results) for name in names)] for task in results[REFERENCE]]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows), ""])


def cell(name: str, task: str, results: Results) -> str:
    """Format one result: same, with the largest relative difference; wrong, with the error; or the exception."""
    if name not in results:
        return "not run"
    outcome = results[name].get(task, "no answer")
    wrong = error(results[REFERENCE].get(task, ""), outcome)
    if wrong is None:
        kind = outcome.partition(":")[0] if isinstance(outcome, str) else "wrong"
        return f"**{kind}**"
    if math.isnan(wrong):
        return "**wrong**: not a number"
    return f"same ({wrong:.0e})" if wrong < TOLERANCE.get(task, 1e-4) else f"**wrong** by {100 * wrong:.0f} %"


if __name__ == "__main__":
    sys.exit(main())
