"""Run the small programs that people write, stock and under agents, and print a table of what differs."""

from __future__ import annotations

import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from table_command import table_parser, table_row
from user_programs.program_kinds import KERAS, Program, judge, programs


def main() -> int:
    """Print a line for each program and Keras as it ends; return 1 if there was a fault."""
    parser = table_parser(__doc__, "kinds, or kind.program")
    parser.add_argument("--keras", choices=[*KERAS, "none"], help="only with this Keras")
    parser.add_argument("--at-once", type=int, default=1, metavar="N", help="programs that run at the same time (1)")
    chosen = parser.parse_args()
    cases = [
        (program, keras)
        for program in programs()
        if not chosen.names or {program.file, str(program)} & set(chosen.names)
        for keras in program.keras
        if chosen.keras in (None, keras)
    ]
    if chosen.list:
        print(*(f"{program} {keras}" for program, keras in cases), sep="\n")
        return 0
    print("| program | Keras | workers | like stock, and told as it is |\n| --- | --- | --- | --- |")
    with ThreadPoolExecutor(chosen.at_once) as pool:
        found = [(case, pool.submit(_judge, *case)) for case in cases]
        for (program, keras), future in found:
            cell = "; ".join(future.result()) or ("not measured, and said" if program.said else "yes")
            print(table_row(f"`{program}`", keras, str(program.workers), cell), flush=True)
    failed = sum(bool(future.result()) for _, future in found)
    print(f"{len(cases)} programs, {failed} with faults", file=sys.stderr)
    return min(failed, 1)


def _judge(program: Program, keras: str) -> list[str]:
    with tempfile.TemporaryDirectory(prefix="tfscale-programs-") as folder:
        return judge(program, keras, Path(folder))


if __name__ == "__main__":
    sys.exit(main())
