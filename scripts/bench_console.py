#!/usr/bin/env python3
"""What the console costs with many tasks: the real program in a pseudo-terminal, against real gRPC servers.

    ./scripts/bench_console.py                          # 10, 100, 1,000 and 4,000 tasks, a minute each
    ./scripts/bench_console.py --tasks 100 --seconds 15 # a short look
    ./scripts/bench_console.py --tasks 1000 --pages     # the other screens

For each size: CPU and memory of the console's process alone, what the fake agents beside it take of the same cores, and
how long the screen takes to answer a key; the same while it records; and a Textual DataTable of as many rows in the
same terminal. Exit status 1 when a budget is missed at 1,000 tasks.
The fake agents share one process per 500: they send frames of 100 steps and 8 GPUs, one a second each.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import fcntl
import functools
import json
import os
import platform
import pty
import random
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar

import grpc
import grpc.aio
import numpy as np
import psutil
from tfscale.agent.moments import until_next
from tfscale.console.widgets.look import PALETTES
from tfscale.core.records import PHASES
from tfscale.v1 import agent_pb2, telemetry_pb2

SIZE = (200, 50)
STEPS = 100
"""A second and task."""
VARIANTS = 97
"""Of what agents measure: one in so many says the same by chance."""
SERVICE = agent_pb2.DESCRIPTOR.services_by_name["Agent"].full_name
PER_PROCESS = 500
BUDGETS = {"cpu": 0.35, "memory": 250e6, "key_p95": 0.050}
"""At JUDGED tasks: share of a core, bytes, seconds."""
JUDGED = 1000
_KEYS_A_SECOND = 7
"""Not in step with the seconds, at which all is drawn anew."""


@dataclass(frozen=True, slots=True)
class Result:
    """One program at one size."""

    program: str
    tasks: int
    cpu: float
    agents: float
    """The same of the fake agents' processes, which have the same cores."""
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


class BenchAgent:
    """One agent. What it says is put together from pieces that are written once, so that a thousand of them leave the
    console's core alone."""

    def __init__(self, index: int, workers: int) -> None:
        name = f"worker:{index}"
        self._index = index
        self._sequence = 0
        self._description = agent_pb2.Description(
            schema_version=1, version="bench", run="bench", task=name, lead="worker:0", host=f"node-{index:04}",
            cluster="{}", generation=1, started=time.time(), pid=1000 + index,
        )  # fmt: skip
        self._same = telemetry_pb2.Frame(
            status=telemetry_pb2.TaskStatus(
                state=telemetry_pb2.TASK_STATE_RUNNING, generation=1, attempt=1, pid=1000, started=time.time()
            ),
            probe=telemetry_pb2.ProbeStatus(
                state=telemetry_pb2.PROBE_STATE_MEASURING, strategy="MultiWorkerMirroredStrategy",
                replicas=workers, ranks=workers, examples_per_step=64, reduced_bytes_per_step=7_450_000,
            ),
        ).SerializeToString()  # fmt: skip
        self._owner = telemetry_pb2.StepBatch(
            generation=1, attempt=1, reporter=name, subject=name
        ).SerializeToString()  # fmt: skip

    async def watch(self, _request: agent_pb2.WatchRequest, _context: object) -> AsyncIterator[bytes]:
        snapshot = agent_pb2.Snapshot(
            description=self._description, recent=[telemetry_pb2.Frame.FromString(self.frame())]
        )
        yield agent_pb2.WatchReply(schema_version=1, snapshot=snapshot).SerializeToString()
        while True:
            await asyncio.sleep(until_next(time.time(), self._index))
            yield b"\x08\x01" + _field(agent_pb2.WatchReply.FRAME_FIELD_NUMBER, self.frame())

    def frame(self) -> bytes:
        """The next one. Messages one after the other are one that has the fields of all."""
        self._sequence += 1
        at, count = time.time(), self._sequence * STEPS
        now = telemetry_pb2.Frame(
            sequence=self._sequence, at=at, collective=telemetry_pb2.Collective(entered=count, left=count)
        )
        steps = self._owner + _numbers(int(at)) + _phases(random.randrange(VARIANTS))
        counters = _counters(random.randrange(VARIANTS))
        batch = _field(telemetry_pb2.Frame.STEPS_FIELD_NUMBER, steps)
        return now.SerializeToString() + self._same + counters + batch


def _field(number: int, payload: bytes) -> bytes:
    length = len(payload)
    assert 128 <= length < 1 << 14
    return bytes([number << 3 | 2, length & 0x7F | 0x80, length >> 7]) + payload


@functools.cache
def _counters(variant: int) -> bytes:
    """What one of the hosts says of itself and its eight GPUs."""
    chance = random.Random(variant)
    host = telemetry_pb2.HostSample(
        cpu=chance.random(), cores=16, load=6.2, memory_used=21 << 30, memory_total=64 << 30,
        interfaces=[telemetry_pb2.Interface(name="eth0", received=118e6, sent=117e6, speed=10e9)],
    )  # fmt: skip
    gpus = [_gpu(index, chance) for index in range(8)]
    return telemetry_pb2.Frame(host=host, gpus=gpus).SerializeToString()


def _gpu(index: int, chance: random.Random) -> telemetry_pb2.GpuSample:
    return telemetry_pb2.GpuSample(
        index=index, uuid=f"GPU-5f1c2a{index:04}-9d1e-4c55-8a{index}", name="NVIDIA A100-SXM4-40GB",
        utilisation=chance.uniform(0.9, 1.0), memory_used=chance.randrange(30 << 30, 34 << 30),
        memory_total=40 << 30, power=chance.uniform(350.0, 400.0), power_limit=400.0,
        temperature=chance.uniform(55.0, 65.0), clock=chance.randrange(1_350_000_000, 1_410_000_000),
        clock_max=1_410_000_000, clock_event_reasons=0, ecc_errors=0,
    )  # fmt: skip


@functools.lru_cache(maxsize=4)
def _numbers(second: int) -> bytes:
    """The steps that ended in the second before; numbered by the clock, so that all processes agree on them."""
    first = (second - 1_700_000_000) * STEPS
    return telemetry_pb2.StepBatch(
        sequence=range(first, first + STEPS),
        global_step=range(first, first + STEPS),
        end=(second - 1 + np.arange(1, STEPS + 1) / STEPS).tolist(),
    ).SerializeToString()


@functools.cache
def _phases(variant: int) -> bytes:
    """The same length for all, with a little noise in the phases."""
    chance = np.random.default_rng(variant)
    own = {"update": 0.0003, "host": 0.0004, "input": 0.0005, "compute": 0.0068}
    rows = {phase: seconds * chance.uniform(0.97, 1.03, STEPS) for phase, seconds in own.items()}
    rows["reduce"] = 1 / STEPS - sum(rows.values())
    return telemetry_pb2.StepBatch(**{name: rows[name].tolist() for name in PHASES}).SerializeToString()


async def serve(first: int, count: int, ports: Path, workers: int) -> None:
    """Serve agents until killed; their ports go to a file."""
    servers, bound = [], []
    for index in range(first, first + count):
        server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        watch = grpc.unary_stream_rpc_method_handler(
            BenchAgent(index, workers).watch, request_deserializer=agent_pb2.WatchRequest.FromString
        )
        server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, {"Watch": watch})])
        bound.append(server.add_insecure_port("127.0.0.1:0"))
        await server.start()
        servers.append(server)
    await asyncio.to_thread(ports.write_text, json.dumps(bound))
    await asyncio.Event().wait()


@contextlib.contextmanager
def agents(tasks: int, folder: Path) -> Iterator[Path]:
    """Fake agents in processes of their own; their cluster file."""
    addresses = [f"10.{n // 62_500}.{n // 250 % 250}.{n % 250 + 2}:2222" for n in range(tasks)]
    processes, files = [], []
    try:
        for first in range(0, tasks, PER_PROCESS):
            ports = folder / f"ports-{tasks}-{first}"
            count = min(PER_PROCESS, tasks - first)
            arguments = ["--serve", str(first), str(count), str(ports), str(tasks)]
            processes.append(subprocess.Popen([sys.executable, __file__, *arguments]))
            files.append(ports)
        bound = [port for ports in files for port in _ports(ports)]
        path = folder / f"cluster-{tasks}.toml"
        lines = "\n".join(f'"worker:{index}" = "127.0.0.1:{port}"' for index, port in enumerate(bound))
        path.write_text(f'name = "bench"\n[cluster]\nworker = {json.dumps(addresses)}\n[agents]\n{lines}\n')
        yield path
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _ports(path: Path) -> list[int]:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if path.exists() and (text := path.read_text()).endswith("]"):
            ports: list[int] = json.loads(text)
            return ports
        time.sleep(0.1)
    raise SystemExit(f"bench_console: the fake agents of {path.name} did not come up in 120 s")


class Terminal:
    """A program in a pseudo-terminal: what it draws is read all the time, keys can be timed."""

    def __init__(self, command: list[str]) -> None:
        self.pid, self._master = pty.fork()
        if self.pid == 0:
            os.environ.update(TERM="xterm-256color", COLORTERM="truecolor", LANG="C.UTF-8")
            os.execvp(command[0], command)
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", SIZE[1], SIZE[0], 0, 0))
        self._drawn = b""
        self._lock = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        while True:
            select.select([self._master], [], [])
            try:
                data = os.read(self._master, 1 << 16)
            except OSError:
                return
            with self._lock:
                self._drawn = (self._drawn + data)[-(1 << 20) :]
                self._lock.notify_all()

    def wait_for(self, pattern: bytes, patience: float) -> bool:
        """Whether the program draws this within so many seconds from now on."""
        found = re.compile(pattern, re.DOTALL)
        with self._lock:
            return self._lock.wait_for(lambda: found.search(self._drawn) is not None, patience)

    def answer(self, key: bytes, pattern: bytes, patience: float = 2.0) -> float | None:
        """Seconds from the key to what it is answered by, None where nothing was."""
        with self._lock:
            self._drawn = b""
        begin = time.perf_counter()
        os.write(self._master, key)
        return time.perf_counter() - begin if self.wait_for(pattern, patience) else None

    def end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._master)


def measure(program: str, command: list[str], tasks: int, seconds: float, warm_up: float, selected: str) -> Result:
    """CPU and memory over `seconds` while keys move the cursor up and down, after a warm-up."""
    terminal = Terminal(command)
    try:
        if not terminal.wait_for(rb"worker:1\b", 60 + tasks / 20):
            raise SystemExit(f"bench_console: {program} drew no task in time")
        time.sleep(warm_up)
        process = psutil.Process(terminal.pid)
        servers = [child for child in psutil.Process().children() if child.pid != terminal.pid]
        before, begin = (_cpu([process]), _cpu(servers)), time.perf_counter()
        answers = _type(terminal, seconds, selected, min(tasks - 1, 30))
        spent, after = time.perf_counter() - begin, (_cpu([process]), _cpu(servers))
        cpu, agents = ((late - early) / spent for early, late in zip(before, after, strict=True))
        known = sorted(each for each in answers if each is not None)
        p50, p95, p99 = (float(np.quantile(known, q)) if known else float("nan") for q in (0.5, 0.95, 0.99))
        lost = len(answers) - len(known)
        return Result(program, tasks, cpu, agents, process.memory_info().rss, p50, p95, p99, len(answers), lost)
    finally:
        terminal.end()


def _cpu(processes: list[psutil.Process]) -> float:
    """Seconds."""
    return sum(times.user + times.system for times in (each.cpu_times() for each in processes))


def _type(terminal: Terminal, seconds: float, selected: str, last: int) -> list[float | None]:
    """Walk the cursor down and up again: the answer to a key is the next row in the selected row's colour."""
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
    """How a screen is come to from the first one, and what only it draws."""

    name: str
    key: bytes
    shows: bytes
    within: tuple[tuple[bytes, bytes], ...]
    """Keys that are pressed there in turn, the last of which undoes the first, and what only their answers draw."""


PAGES = (
    Page("task", b"\r", rb"follow", ((b"/", rb"n and N go on"), (b"\x1b", rb""))),
    Page("steps", b"v", rb"slowest first", ((b"p", rb"held"), (b"p", rb"second by second"))),
    Page("events", b"e", rb"evidence", ((b"/", rb"kind:straggler"), (b"\x1b", rb""))),
    Page("advice", b"A", rb"scroll", ()),
    Page("heat map", b"h", rb"tasks or GPUs", ((b"m", rb"lost in a step"), (b"M", rb"lag over"))),
)
BACK, FIRST_SHOWS = b"\x1b", rb"heat map"


def visit(command: list[str], tasks: int, seconds: float, warm_up: float) -> list[str]:
    """How long each screen takes to be there, and the first one to be there again, as lines."""
    terminal = Terminal(command)
    try:
        if not terminal.wait_for(rb"worker:1\b", 60 + tasks / 20):
            raise SystemExit("bench_console: console drew no task in time")
        time.sleep(warm_up)
        return [_visited(terminal, page, tasks, seconds / len(PAGES)) for page in PAGES]
    finally:
        terminal.end()


def _visited(terminal: Terminal, page: Page, tasks: int, seconds: float) -> str:
    process, begin = psutil.Process(terminal.pid), time.perf_counter()
    before, there, back, within = _cpu([process]), [], [], []
    while time.perf_counter() - begin < seconds:
        there.append(terminal.answer(page.key, page.shows))
        time.sleep(1.3 / _KEYS_A_SECOND)
        for key, shows in page.within * 2:
            answer = terminal.answer(key, shows)
            within += [answer] if shows else []
            time.sleep(1.3 / _KEYS_A_SECOND)
        back.append(terminal.answer(BACK, FIRST_SHOWS))
        time.sleep(1 / _KEYS_A_SECOND)
    cpu = (_cpu([process]) - before) / (time.perf_counter() - begin)
    lost = sum(answers.count(None) for answers in (there, back, within))
    told = f"there {_quantiles(there)}  within {_quantiles(within) if within else '-'}  back {_quantiles(back)}"
    return f"{page.name:<10}{tasks:>6,}{cpu:>8.0%}  {told}  lost {lost}"


def _quantiles(answers: list[float | None]) -> str:
    known = sorted(each for each in answers if each is not None)
    p50, p95 = (float(np.quantile(known, q)) if known else float("nan") for q in (0.5, 0.95))
    return f"p50 {p50 * 1e3:.0f} ms, p95 {p95 * 1e3:.0f} ms"


def bench(tasks: int, seconds: float, warm_up: float, folder: Path) -> list[Result]:
    """The console, the console while it records, and the DataTable at one size."""
    red, green, blue = bytes.fromhex(next(iter(PALETTES.values())).selected.lstrip("#"))
    with agents(tasks, folder) as cluster:
        command = _console(cluster)
        results = [measure("console", command, tasks, seconds, warm_up, f"{red};{green};{blue}")]
        command += ["--record", str(folder / f"{tasks}.tfrec")]
        results.append(measure("recording", command, tasks, seconds, warm_up, f"{red};{green};{blue}"))
    command = [sys.executable, __file__, "--data-table", str(tasks)]
    return [*results, measure("DataTable", command, tasks, seconds, 3.0, r"\d+;\d+;\d+")]


def tour(sizes: list[int], seconds: float, warm_up: float) -> int:
    """Visit the other screens at each size, and tell."""
    with tempfile.TemporaryDirectory(prefix="tfscale-bench-") as folder:
        for tasks in sizes:
            with agents(tasks, Path(folder)) as cluster:
                print("\n".join(visit(_console(cluster), tasks, seconds, warm_up)), flush=True)
    return 0


def _console(cluster: Path) -> list[str]:
    return [sys.executable, "-m", "tfscale.console.cli", "--cluster", str(cluster)]


def show_data_table(tasks: int) -> None:
    """As many rows of 12 columns in a DataTable, every cell renewed every second."""
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
    """The budgets that were missed."""
    missed = []
    for result in results:
        if result.program == "console" and result.tasks == JUDGED:
            values = asdict(result)
            missed += [
                f"{name} {values[name]:.3g} is above {limit:.3g} at {JUDGED:,} tasks"
                for name, limit in BUDGETS.items()
                if not values[name] <= limit
            ]
            if result.unanswered:
                missed.append(f"{result.unanswered} keys were not answered within 2 s at {JUDGED:,} tasks")
    return missed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, nargs="+", default=[10, 100, 1000, 4000], metavar="N")
    parser.add_argument("--seconds", type=float, default=60.0, metavar="S", help="measured for each program and size")
    parser.add_argument("--warm-up", type=float, default=20.0, metavar="S", help="before it, with the agents there")
    parser.add_argument(
        "--pages", action="store_true", help="the other screens instead: how long each takes to be there"
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="the results as JSON too")
    parser.add_argument("--serve", nargs=4, help=argparse.SUPPRESS)
    parser.add_argument("--data-table", type=int, help=argparse.SUPPRESS)
    flags = parser.parse_args()
    if flags.serve:
        first, count, ports, workers = flags.serve
        asyncio.run(serve(int(first), int(count), Path(ports), int(workers)))
        return 0
    if flags.data_table:
        show_data_table(flags.data_table)
        return 0
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, {SIZE[0]}x{SIZE[1]}")
    if flags.pages:
        return tour(flags.tasks, flags.seconds, flags.warm_up)
    print(HEAD, flush=True)
    results: list[Result] = []
    with tempfile.TemporaryDirectory(prefix="tfscale-bench-") as folder:
        for tasks in flags.tasks:
            for result in bench(tasks, flags.seconds, flags.warm_up, Path(folder)):
                results.append(result)
                print(result.line(), flush=True)
    if flags.out:
        flags.out.write_text(json.dumps([asdict(result) for result in results], indent=2) + "\n")
    missed = judge(results)
    for each in missed:
        print(f"bench_console: {each}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
