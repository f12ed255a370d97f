"""Cost of the console with many tasks: the real program in a pseudo-terminal, with real gRPC servers.

    .venv/bin/python scripts/bench/console.py                          # 10, 100, 1,000 and 4,000 tasks, a minute each
    .venv/bin/python scripts/bench/console.py --tasks 1000 --rounds 3  # the medians of three are judged
    .venv/bin/python scripts/bench/console.py --tasks 100 --seconds 15 # a short look
    .venv/bin/python scripts/bench/console.py --tasks 1000 --pages     # the other screens
    .venv/bin/python scripts/bench/console.py --traffic                # what it writes to the terminal

Measures for each size CPU and memory of the console's process alone, the CPU of the fake agents on the same cores, and
the time from a key to its repaint; the same while it records; and a Textual DataTable of as many rows in the same
terminal. Ends with 3 when a budget is missed at 1,000 tasks, or by what is written to the terminal for 64 healthy
tasks. The fake agents, 500 in one process, send a frame of 100 steps and 8 GPUs each second.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import ClassVar

import numpy as np
import psutil
from fake_agents import STEPS, agents
from terminal import SIZE, Terminal
from tfscale.console.tui.widgets.appearance.theme import PALETTES
from tfscale.core.settings.exit_status import ExitStatus

BUDGETS = {"cpu": 0.35, "memory": 250e6, "key_p95": 0.050}
"""Budgets at JUDGED tasks: share of a core, bytes, and seconds."""
JUDGED = 1000
TRAFFIC, TRAFFIC_TASKS = 4e3, 64
"""Most bytes a second to the terminal, and the tasks of the healthy simulation that it is about."""
TRAFFIC_SIZES = ((80, 24), (120, 40), (200, 60))
_LAST = 12
"""Last row to which the cursor is moved: where the table scrolls, only the digits of a row's name are written anew."""
_KEYS_A_SECOND = 7
"""Keys a second, out of step with the seconds at which the screen is drawn anew."""


@dataclass(frozen=True, slots=True)
class Result:
    """One program at one size."""

    program: str
    tasks: int
    cpu: float
    agents: float
    """CPU of the fake agents' processes, on the same cores."""
    memory: int
    key_p50: float
    key_p95: float
    key_p99: float
    keys: int
    unanswered: int

    def line(self) -> str:
        return (
            f"{self.program:<10}{self.tasks:>6,}{self.cpu:>8.0%}{self.agents:>8.0%}{self.memory / 1e6:>9.0f} MB"
            f"{self.key_p50 * 1e3:>8.1f}{self.key_p95 * 1e3:>8.1f}{self.key_p99 * 1e3:>8.1f}"
            f"{self.keys:>7}{self.unanswered:>6}"
        )


HEAD = (
    f"{'program':<10}{'tasks':>6}{'CPU':>8}{'agents':>8}{'memory':>12}"
    f"{'p50 ms':>8}{'p95 ms':>8}{'p99 ms':>8}{'keys':>7}{'lost':>6}"
)


def measure(program: str, command: list[str], tasks: int, seconds: float, warm_up: float, selected: str) -> Result:
    """Measure CPU and memory over `seconds`, after a warm-up, while keys move the cursor up and down."""
    terminal = Terminal(command)
    try:
        _start(terminal, program, tasks, warm_up)
        return _measured(program, terminal, tasks, lambda: _type(terminal, seconds, selected, min(tasks - 1, _LAST)))
    finally:
        terminal.end()


def _start(terminal: Terminal, program: str, tasks: int, warm_up: float) -> None:
    if not terminal.wait_for(rb"worker:1\b", 60 + tasks / 20):
        raise SystemExit(f"bench/console: {program} drew no task in time")
    time.sleep(warm_up)


def _measured(program: str, terminal: Terminal, tasks: int, press: Callable[[], list[float | None]]) -> Result:
    """Measure CPU and memory while keys are pressed, and the times to their repaints."""
    process = psutil.Process(terminal.pid)
    servers = [child for child in psutil.Process().children() if child.pid != terminal.pid]
    before, begin = (_cpu([process]), _cpu(servers)), time.perf_counter()
    answers = press()
    spent, after = time.perf_counter() - begin, (_cpu([process]), _cpu(servers))
    cpu, agents = ((late - early) / spent for early, late in zip(before, after, strict=True))
    known = sorted(answer for answer in answers if answer is not None)
    p50, p95, p99 = (float(np.quantile(known, q)) if known else float("nan") for q in (0.5, 0.95, 0.99))
    lost = len(answers) - len(known)
    return Result(program, tasks, cpu, agents, process.memory_info().rss, p50, p95, p99, len(answers), lost)


def _cpu(processes: list[psutil.Process]) -> float:
    """Return seconds."""
    return sum(times.user + times.system for times in (process.cpu_times() for process in processes))


def _type(terminal: Terminal, seconds: float, selected: str, last: int) -> list[float | None]:
    """Walk the cursor down and up again; a key is answered by the next row in the colour of the selected one."""
    answers: list[float | None] = []
    row, by = 0, 1
    deadline = time.perf_counter() + seconds
    while time.perf_counter() < deadline:
        if not 0 <= row + by <= last:
            by = -by
        row += by
        pattern = rf"48;2;{selected}[^\x1b]*m[^\x1b]*worker:{row}\b"
        answers.append(terminal.answer(b"j" if by > 0 else b"k", pattern.encode()))
        time.sleep(1 / _KEYS_A_SECOND)
    return answers


@dataclass(frozen=True, slots=True)
class Page:
    """A screen: the key that opens it from the first one, and a pattern that only it draws."""

    name: str
    key: bytes
    shows: bytes
    keys: tuple[tuple[bytes, bytes], ...] = ()
    """Keys that are pressed there in turn, the last of which undoes the first, each with a pattern that only its answer
    draws; where that is empty, the answer is not timed."""


_CHOSEN = rb"(?<!\x1b)\["
"""Sign of the chosen cell of the heat map; of its name only the digits that change are drawn."""
PAGES = (
    Page("task", b"\r", rb"follow", ((b"/", rb"n and N go on"), (b"\r", rb""))),
    Page("steps", b"v", rb"slowest first", ((b"p", rb"held"), (b"p", rb"second by second"))),
    Page("events", b"e", rb"evidence", ((b"/", rb"kind:straggler"), (b"\r", rb""))),
    Page("advice", b"A", rb"scroll"),
    Page("heat map", b"h", rb"tasks or GPUs", ((b"\x1b[C", _CHOSEN), (b"\x1b[D", _CHOSEN))),
    Page("hosts", b"6", rb"in and out|its tasks use|by others"),
)
BACK, FIRST_SHOWS = b"\x1b", rb"culprit"
_VISITS = 10


def visit(command: list[str], tasks: int, seconds: float, warm_up: float) -> Iterator[tuple[Result, str]]:
    """Measure each screen while it is open, the time until it is drawn, and the time until the first one is back."""
    terminal = Terminal(command)
    try:
        _start(terminal, "console", tasks, warm_up)
        for page in PAGES:
            result = _stay(terminal, page, tasks, seconds)
            yield result, _come_and_go(terminal, page)
    finally:
        terminal.end()


def _stay(terminal: Terminal, page: Page, tasks: int, seconds: float) -> Result:
    """Stay on the page, pressing its keys."""
    terminal.answer(page.key, page.shows)
    time.sleep(1.0)

    def press() -> list[float | None]:
        answers: list[float | None] = []
        deadline = time.perf_counter() + seconds
        while time.perf_counter() < deadline:
            for key, shows in page.keys or ((b"", b""),):
                answer = terminal.answer(key, shows)
                answers += [answer] if shows else []
                time.sleep(1 / _KEYS_A_SECOND)
        return answers

    result = _measured(page.name, terminal, tasks, press)
    terminal.answer(BACK, FIRST_SHOWS)
    return result


def _come_and_go(terminal: Terminal, page: Page) -> str:
    there, back = [], []
    for _ in range(_VISITS):
        time.sleep(1.3 / _KEYS_A_SECOND)
        there.append(terminal.answer(page.key, page.shows))
        time.sleep(1.3 / _KEYS_A_SECOND)
        back.append(terminal.answer(BACK, FIRST_SHOWS))
    return f"there {_quantiles(there)}, back {_quantiles(back)}"


def _quantiles(answers: list[float | None]) -> str:
    # The nearest of the answers: between two that never came there is no number.
    times = [np.inf if answer is None else answer for answer in answers]
    p50, p95 = np.quantile(times, (0.5, 0.95), method="nearest")
    return f"p50 {p50 * 1e3:.0f} ms, p95 {p95 * 1e3:.0f} ms"


def bench(tasks: int, seconds: float, warm_up: float, folder: Path) -> list[Result]:
    """Measure the console, the console while it records, and the DataTable at one size."""
    red, green, blue = bytes.fromhex(next(iter(PALETTES.values())).selected.lstrip("#"))
    with agents(tasks, folder) as cluster:
        command = _console(cluster)
        results = [measure("console", command, tasks, seconds, warm_up, f"{red};{green};{blue}")]
        command += ["--record", str(folder / f"{tasks}.tfrec")]
        results.append(measure("recording", command, tasks, seconds, warm_up, f"{red};{green};{blue}"))
    command = [sys.executable, __file__, "--data-table", str(tasks)]
    return [*results, measure("DataTable", command, tasks, seconds, 3.0, r"\d+;\d+;\d+")]


def measure_pages(tasks: int, seconds: float, warm_up: float, folder: Path) -> list[Result]:
    """Visit the other screens, and print their results."""
    results = []
    with agents(tasks, folder) as cluster:
        for result, ways in visit(_console(cluster), tasks, seconds, warm_up):
            results.append(result)
            print(f"{result.line()}  {ways}", flush=True)
    return results


def _console(cluster: Path) -> list[str]:
    return [sys.executable, "-m", "tfscale.console.cli", "--cluster", str(cluster)]


def measure_traffic(seconds: float, warm_up: float) -> list[str]:
    """Print what a healthy screen writes to terminals of several sizes, and return which write too much."""
    missed = []
    command = [sys.executable, "-m", "tfscale.console.cli", "--simulate", str(TRAFFIC_TASKS)]
    for size in TRAFFIC_SIZES:
        terminal = Terminal(command, size)
        try:
            _start(terminal, "console", TRAFFIC_TASKS, warm_up)
            before = terminal.written
            time.sleep(seconds)
            rate = (terminal.written - before) / seconds
        finally:
            terminal.end()
        name = f"{size[0]}x{size[1]}"
        print(f"{name:<8}{rate / 1e3:>6.1f} kB/s", flush=True)
        missed += [f"{name}: {rate:,.0f} bytes a second are above {TRAFFIC:,.0f}"] if rate > TRAFFIC else []
    return missed


def show_data_table(tasks: int) -> None:
    """Show as many rows of 12 columns in a DataTable, and renew every cell each second."""
    from textual.app import App, ComposeResult
    from textual.binding import Binding, BindingType
    from textual.widgets import DataTable

    names = ("task", "host", "state", "up", "gen", "step", "time", "device", "memory", "received", "sent", "flags")

    class TableApp(App[None]):
        BINDINGS: ClassVar[list[BindingType]] = [Binding("j", "move(1)"), Binding("k", "move(-1)")]

        def compose(self) -> ComposeResult:
            yield DataTable(cursor_type="row")

        def on_mount(self) -> None:
            self.table = self.query_one(DataTable)
            self.table.add_columns(*names)
            for index in range(tasks):
                self.table.add_row(*self._cells(index, 0), key=str(index))
            self.columns = list(self.table.columns)
            self.second = 0
            self.set_interval(1.0, self._renew)

        def action_move(self, by: int) -> None:
            (self.table.action_cursor_down if by > 0 else self.table.action_cursor_up)()

        def _renew(self) -> None:
            self.second += 1
            for index in range(tasks):
                for column, cell in zip(self.columns, self._cells(index, self.second), strict=True):
                    self.table.update_cell(str(index), column, cell)

        def _cells(self, index: int, second: int) -> list[str]:
            rest = ["running", f"{second} s", "1.1", f"{second * STEPS:,}", f"{10 + second % 7} ms", "GPU 97 %"]
            rest += ["33 GB", f"{118 + second % 5} MB/s", f"{117 + second % 5} MB/s", ""]
            return [f"worker:{index}", f"node-{index:04}", *rest]

    TableApp().run()


def judge(results: list[Result]) -> list[str]:
    """List the budgets that the console missed on any screen, by the median of the rounds."""
    missed = []
    for program in ("console", *(page.name for page in PAGES)):
        rounds = [result for result in results if (result.program, result.tasks) == (program, JUDGED)]
        if not rounds:
            continue
        for name, limit in BUDGETS.items():
            value = median(asdict(result)[name] for result in rounds)
            if value > limit:
                missed.append(f"{program}: {name} {value:.3g} is above {limit:.3g} at {JUDGED:,} tasks")
        if unanswered := sum(result.unanswered for result in rounds):
            missed.append(f"{program}: {unanswered} keys were not answered within 2 s at {JUDGED:,} tasks")
    return missed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, nargs="+", default=[10, 100, 1000, 4000], metavar="N")
    parser.add_argument("--seconds", type=float, default=60.0, metavar="S", help="measured for each program and size")
    parser.add_argument("--rounds", type=int, default=1, metavar="N", help="of all of it at each size")
    parser.add_argument("--warm-up", type=float, default=20.0, metavar="S", help="before it, with the agents there")
    parser.add_argument(
        "--pages", action="store_true", help="the other screens instead, and how long each takes to be there"
    )
    parser.add_argument(
        "--traffic", action="store_true", help=f"bytes a second to the terminal, with {TRAFFIC_TASKS} simulated tasks"
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="the results as JSON too")
    parser.add_argument("--data-table", type=int, help=argparse.SUPPRESS)
    flags = parser.parse_args()
    if flags.data_table:
        show_data_table(flags.data_table)
        return 0
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, {SIZE[0]}x{SIZE[1]}")
    if flags.traffic:
        return _tell(measure_traffic(flags.seconds, flags.warm_up))
    print(HEAD, flush=True)
    results: list[Result] = []
    for tasks in [size for size in flags.tasks for _ in range(flags.rounds)]:
        with tempfile.TemporaryDirectory(prefix="tfscale-bench-") as folder:
            if flags.pages:
                results += measure_pages(tasks, flags.seconds, flags.warm_up, Path(folder))
                continue
            for result in bench(tasks, flags.seconds, flags.warm_up, Path(folder)):
                results.append(result)
                print(result.line(), flush=True)
    if flags.out:
        flags.out.write_text(json.dumps([asdict(result) for result in results], indent=2) + "\n")
    return _tell(judge(results))


def _tell(missed: list[str]) -> int:
    """Print what was missed, and return the exit status."""
    for problem in missed:
        print(f"bench/console: {problem}", file=sys.stderr)
    return ExitStatus.UNHEALTHY if missed else ExitStatus.WELL


if __name__ == "__main__":
    sys.exit(main())
