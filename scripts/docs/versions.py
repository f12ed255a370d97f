"""Run eight programs in environments of other versions, stock and under agents, and write what differs into a page.

Each environment (environments.py) is a virtual environment without tfscale, made from PyPI the first time and kept:
agents and console run from .venv, and give the probe to the tasks by path. A program must end as stock does, with the
same numbers and output, each of its steps must be measured, and a worker that is slowed in its input must be named, it
alone.

Exit 1 where a program differs; a nightly's fault may be its own, and is only printed.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from environments import ENVIRONMENTS, Environment, made, turn
from example_programs import PROGRAMS, check, run
from table_command import cut, leave_by_exception, table_parser, table_row
from tfscale.core.log_clues import SHOWS_LESS
from user_programs.program_kinds import judge, programs

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "versions.md"
KEPT = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "tfscale-versions"
EIGHT = {
    "fit": "workers_fit.fit_with_a_slow_reader",
    "custom loop": "workers_loop.slow_reader_of_a_data_set",
    "parameter server": "parameter_server_fit",
    "mirrored": "strategies.fit_mirrored",
    "own loader": "inputs.fit_own_sequence",
    "save and load": "saving.loaded_with_its_optimizer",
    "evaluate, predict": "workers_fit.evaluated_and_predicted_on_two_workers",
    "tf_keras": "workers_fit.fit_with_a_slow_reader",
}
"""Programs by the heads of their columns: small ones of tests/e2e/programs/kinds, and one of examples/."""
HEADS = ("environment", "Python", "TensorFlow", "Keras", "protobuf", "NumPy", "names", *EIGHT, "date")
_SLOWED = {"SLOW": "0.06", "STEPS": "500"}
"""Variables of a run whose second worker is slowed: half a minute. It was named 12 to 21 s after its first step, so a
run of 15 s ended before now and then."""
_LONGEST = 160
"""Characters of a fault in the table: a longer one makes its row unreadable, and is printed whole."""
_VERSIONS = """
import platform
from importlib.metadata import distributions
found = {each.metadata["Name"].lower().replace("_", "-"): each.version for each in distributions()}
names = [("tensorflow", "tensorflow-cpu", "tf-nightly"), ("keras", "keras-nightly"), ("protobuf",), ("numpy",)]
print(platform.python_version(), *(next((found[name] for name in each if name in found), "-") for each in names))
"""
_NAMES = "import json; from tfscale.trainer.tf_internals import faults; print(json.dumps(faults()))"


def main() -> int:
    """Run the chosen environments; return 1 if there was a fault in one that is no nightly."""
    parser = table_parser(__doc__, "environments")
    parser.add_argument("--program", action="append", choices=EIGHT, help="only this program; may be repeated")
    parser.add_argument("--look", action="store_true", help="run no program: only look for the private names")
    parser.add_argument(
        "--turn",
        action="store_true",
        help="`fit` with the newest builds and in one other environment, by the commit; the page stays",
    )
    parser.add_argument("--kept", type=Path, default=KEPT, metavar="FOLDER", help=f"of the environments ({KEPT})")
    chosen = parser.parse_args()
    if chosen.list:
        print(*ENVIRONMENTS, sep="\n")
        return 0
    leave_by_exception()
    selected = [] if chosen.look else chosen.program or (["fit"] if chosen.turn else [*EIGHT])
    own, nightlies = [], []
    for name in turn(_commit()) if chosen.turn else chosen.names or ENVIRONMENTS:
        faults = _run(name, selected, chosen.kept, writes=not chosen.turn)
        if faults and chosen.turn:
            # As tests of CI do: it times real processes on the cores that there are.
            print(f"{name}: once more after: {'; '.join(faults)}", file=sys.stderr)
            faults = _run(name, selected, chosen.kept, writes=False)
        if faults:
            (nightlies if ENVIRONMENTS[name].is_nightly else own).append(f"{name}: {'; '.join(faults)}")
    lines = [*own, *(f"not counted, as it is a nightly: {fault}" for fault in nightlies)]
    print(*lines, sep="\n", end="\n" if lines else "", file=sys.stderr)
    return 1 if own else 0


def _commit() -> str:
    return subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def _run(name: str, selected: Sequence[str], kept: Path, *, writes: bool) -> list[str]:
    """Run an environment's programs, write its row into the page if asked to, and return the faults."""
    environment = ENVIRONMENTS[name]
    try:
        python = str(made(name, kept))
        versions = _asked(python, _VERSIONS).split()
        notes = json.loads(_asked(python, _NAMES))
    except (OSError, subprocess.CalledProcessError) as error:
        return [f"was not made: {error}"]
    cells = dict(zip(HEADS[1:6], versions, strict=True)) | {"names": "; ".join(notes) or "all"}
    faults = [note for note in notes if not note.startswith(SHOWS_LESS)]
    for head in selected:
        found = ["; ".join(_judged_or_why_not(head, environment, python))] if _can_run(head, environment) else []
        cells[head] = (found[0] or "as stock") if found else "-"
        faults += [f"{head}: {each}" for each in found if each]
        print(f"{name}: {head}: {cells[head]}", flush=True)
    if writes:
        _write(name, cells)
    return faults


def _can_run(head: str, environment: Environment) -> bool:
    return head != "tf_keras" or any(package.startswith(("tf_keras", "tf-keras")) for package in environment.packages)


def _asked(python: str, question: str) -> str:
    """Return the last line that an environment's Python answers."""
    variables = os.environ | {"PYTHONPATH": os.pathsep.join(str(ROOT / part) for part in ("core", "trainer"))}
    asked = subprocess.run([python, "-c", question], env=variables, capture_output=True, text=True, check=True)
    return asked.stdout.strip().rpartition("\n")[2]


def _judged_or_why_not(head: str, environment: Environment, python: str) -> list[str]:
    try:
        return _judged(head, environment, python)
    except (OSError, subprocess.SubprocessError, LookupError, ValueError) as error:
        # A run that hangs, or leaves no result: with a nightly that must end nothing.
        return [f"could not be judged: {type(error).__name__}: {error}"]


def _judged(head: str, environment: Environment, python: str) -> list[str]:
    keras = "tf_keras" if head == "tf_keras" else environment.keras
    with tempfile.TemporaryDirectory(prefix="tfscale-versions-") as folder:
        program = next((program for program in programs() if str(program) == EIGHT[head]), None)
        if program is not None:
            # What Keras 3 needs a repair for is compared with nothing; Keras 2 does it in stock, too.
            program = replace(program, repaired=program.repaired and keras == "keras 3")
            return judge(program, keras, Path(folder), python, _SLOWED)
        example = next(program for program in PROGRAMS if program.name == EIGHT[head])
        try:
            check(run(example, keras, Path(folder), python), example, keras)
        except AssertionError as error:
            # It quotes the logs of all tasks.
            lines = str(error).replace("\\n", "\n").splitlines()
            return [next((line for line in lines if re.match(r"[\w.]+Error: ", line)), cut(str(error), _LONGEST))]
    return []


def _write(name: str, cells: dict[str, str]) -> None:
    """Put a row into the page's table; cells of programs that were not run stay."""
    before, head, rows = PAGE.read_text().partition(table_row(*HEADS))
    ruler, *lines = rows.strip().splitlines()
    kept = {line.split(" | ")[0].removeprefix("| "): line.strip("| ").split(" | ") for line in lines}
    old = dict(zip(HEADS, kept.get(name, []), strict=False))
    row = {"environment": name, **cells, "date": time.strftime("%Y-%m-%d")}
    kept[name] = [cut(row.get(head, old.get(head, "not run")), _LONGEST) for head in HEADS]
    ordered = [table_row(*kept[each]) for each in ENVIRONMENTS if each in kept]
    PAGE.write_text(before + "\n".join([head, ruler, *ordered]) + "\n")


if __name__ == "__main__":
    sys.exit(main())
