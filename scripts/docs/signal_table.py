"""Send each signal to a real program, stock and under an agent, and print a table of what the program saw of it."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from signals.signal_differences import difference, expected, in_turn
from signals.signal_trial import NUMBERS, OF_TERMINAL, SETTINGS, TERMINAL, WAYS, Seen, Trial
from table_command import table_parser, table_row
from tfscale.core.access.sent_signals import signal_named
from tfscale.core.text import signal_name

_SAME = "same"


def main() -> int:
    """Print a row for each signal; return 1 if a program saw something else than the table of differences says."""
    parser = table_parser(__doc__, "signals, as USR1 or 64")
    parser.add_argument("--at-once", type=int, default=1, metavar="N", help="programs that run at the same time (1)")
    chosen = parser.parse_args()
    numbers = tuple(int(each) if each.isdecimal() else signal_named(each) for each in chosen.names) or NUMBERS
    if chosen.list:
        print(*map(signal_name, numbers), sep="\n")
        return 0
    with ThreadPoolExecutor(chosen.at_once) as pool:
        ends = {
            (number, way): pool.submit(_end, number, way)
            for number in numbers
            for way in WAYS
            if way != TERMINAL or number in OF_TERMINAL
        }
        handled = [
            pool.submit(_faults_of_handlers, tuple(set(numbers) & set(in_turn(way, setting))), way, setting)
            for way in WAYS
            for setting in SETTINGS
        ]
        print(table_row("signal", *WAYS))
        print(table_row(*["---"] * (len(WAYS) + 1)))
        for number in numbers:
            cells = [ends[number, way].result() if (number, way) in ends else "-" for way in WAYS]
            print(table_row(f"{number} {signal_name(number)}", *cells), flush=True)
        faults = [fault for future in handled for fault in future.result()]
    faults += [future.result() for future in ends.values() if " is not " in future.result()]
    print(*faults, f"{len(faults)} faults", sep="\n", file=sys.stderr)
    return min(len(faults), 1)


def _sees(setting: str | None, way: str, numbers: Sequence[int], *, handles: bool) -> Seen:
    # The shim of a program whose agent was ended writes its last state a moment after the program's end.
    with tempfile.TemporaryDirectory(prefix="tfscale-signals-", ignore_cleanup_errors=True) as folder:
        return Trial(Path(folder), setting, way, handles).sees(*numbers)


def _end(number: int, way: str) -> str:
    """Return what a signal does to a program without handlers, by the settings in which that differs."""
    stock, cells = _sees(None, way, (number,), handles=False), {}
    for setting in SETTINGS:
        seen, differs = _sees(setting, way, (number,), handles=False), difference(number, way, setting)
        if seen != expected(stock, number, way, setting):
            return f"{signal_name(number)}, {way}, {setting}: {seen.end} is not {stock.end}"
        cells[setting] = _SAME if differs is None else differs.what
    if len(set(cells.values())) == 1:
        return cells[SETTINGS[0]]
    return "; ".join(f"{setting}: {cell}" for setting, cell in cells.items())


def _faults_of_handlers(numbers: Sequence[int], way: str, setting: str) -> list[str]:
    """Send these signals in turn to a program that handles all; return a sentence about wrong calls."""
    numbers = tuple(sorted(numbers))
    if not numbers:
        return []
    seen = _sees(setting, way, numbers, handles=True)
    wanted = tuple(number for number in numbers if difference(number, way, setting) is None)
    return [] if seen.calls == wanted else [f"handlers, {way}, {setting}: {seen.calls} is not {wanted}"]


if __name__ == "__main__":
    sys.exit(main())
