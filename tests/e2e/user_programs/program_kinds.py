"""Small programs of the kinds that people write (programs/kinds), each run stock and under agents, and judged.

Under agents a program must be what it is without: the same numbers, exit status, output and files. And what the agents
tell of it must be true: every step, once and in order, each phase known or declared unknown, the slowed worker named.
"""

from __future__ import annotations

import ast
import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from local_cluster import ENVIRONMENT, end, run_files, start_agent
from loopback import free_addresses
from recording import PHASES, Recording

KINDS = Path(__file__).parents[1] / "programs" / "kinds"
KERAS = {"keras 3": {}, "tf_keras": {"TF_USE_LEGACY_KERAS": "1"}}
PATIENCE = 150
"""Seconds until a program must have ended."""
SLOW = {"SLOW": "0.05", "STEPS": "300"}
"""Variables of a run whose second worker is slowed."""
_CONSOLE = (sys.executable, "-m", "tfscale.console.cli")
_NOISE = re.compile(
    r"^(WARNING: All log|I0000|W0000|E0000|To enable the following|:UNKNOWN:|:\{.created|Additional GRPC"
    r"|=== Source Location|external/|/job:\w+/replica:\d+/task:\d+$|The tasks have crashed\. Check"
    r"|\d{4}-\d\d-\d\d \d\d:|.*( - ETA: |/step)|\s*$)"
)
"""Lines that TensorFlow itself writes, in an order and number of its own, and progress bars, which follow the clock."""


@dataclass(frozen=True)
class Program:
    """A program, and the facts that its mark declares."""

    file: str
    name: str
    workers: int = 1
    keras: tuple[str, ...] = tuple(KERAS)
    """Keras versions that it can run with; `("none",)` if it uses no Keras."""
    unknown: tuple[str, ...] = ()
    """Phases that cannot be known, as the documentation says."""
    slow: str | None = None
    """Phase in which a slowed worker loses its time; None: it is not run with one."""
    said: str | None = None
    """Words of the headline, where its steps cannot be measured."""
    exit: int = 0
    close: float = 1e-4
    """Largest relative difference of its numbers from stock's."""
    same_numbers: bool = True
    """False where stock's own numbers differ from run to run."""
    repaired: bool = False
    """True where stock fails, and the repairs let it run."""
    quick: bool = True
    """True for the half that runs in every CI."""

    def __str__(self) -> str:
        return f"{self.file}.{self.name}"


@dataclass(frozen=True)
class Outcome:
    """End of a program: exit status of each worker, what it reports, its output, the files that it has written."""

    exits: list[int | None]
    results: list[dict[str, Any]]
    outputs: list[list[str]]
    files: set[str]


@dataclass(frozen=True)
class Watched:
    """A run under agents: its end, what they told of it, and the last snapshot's headline."""

    outcome: Outcome
    recording: Recording
    headline: str
    once: int
    """Exit status of `--once`, at the end."""


def programs() -> list[Program]:
    """Return all programs, as their marks in the source declare them."""
    found = []
    for path in sorted(KINDS.glob("*.py")):
        for function in ast.parse(path.read_text()).body:
            if isinstance(function, ast.FunctionDef):
                marks = [mark for mark in function.decorator_list if isinstance(mark, ast.Call)]
                facts = {word.arg: ast.literal_eval(word.value) for mark in marks for word in mark.keywords}
                found += [Program(path.stem, function.name, **facts)] if marks else []
    return found


def run_stock(program: Program, keras: str, folder: Path, python: str = sys.executable) -> Outcome:
    """Run it without tfscale."""
    variables = _variables(keras, python)
    addresses = free_addresses(program.workers)
    cluster = {"worker": [next(addresses) for _ in range(program.workers)]}
    processes = []
    for index in range(program.workers):
        place = {"cluster": cluster, "task": {"type": "worker", "index": index}}
        own = {"TF_CONFIG": json.dumps(place)} if program.workers > 1 else {}
        with (folder / f"{index}.out").open("wb") as out:
            processes.append(
                subprocess.Popen(
                    _command(program, python), cwd=_work(folder), env=variables | own, stdout=out, stderr=out
                )
            )
    exits = [_ended(process) for process in processes]
    return _outcome(folder, exits, [(folder / f"{index}.out") for index in range(program.workers)])


def run_watched(
    program: Program,
    keras: str,
    folder: Path,
    more: Mapping[str, str] | None = None,
    *,
    python: str = sys.executable,
) -> Watched:
    """Run it under agents, of which a console records what they tell."""
    cluster, out = _cluster_file(folder, program.workers), folder / "run.jsonl"
    variables = _variables(keras, python) | (more or {})
    with (folder / "agents").open("wb") as said:
        agents = [
            start_agent(folder, cluster, index, _command(program, python), variables, said=said.fileno())
            for index in range(program.workers)
        ]
        try:
            _watch(cluster, out)
            once = subprocess.run(
                [*_CONSOLE, "--cluster", cluster, "--once"], capture_output=True, text=True, check=False
            )
        finally:
            end(agents)
    recording = Recording.read(out)
    logs = [run_files(folder) / f"worker-{index}.log" for index in range(program.workers)]
    outcome = _outcome(folder, [_exit(recording, index) for index in range(program.workers)], logs)
    return Watched(outcome, recording, json.loads(once.stdout)["headline"], once.returncode)


def faults(program: Program, stock: Outcome, watched: Watched) -> Iterator[str]:
    """Yield each way in which the run under agents is not what it should be."""
    ours = watched.outcome
    if not program.repaired:
        yield from _differences(program, stock, ours)
    if any(status != program.exit for status in ours.exits):
        yield f"exit {ours.exits} instead of {program.exit}: {ours.outputs[0][-3:]}"
    if program.said is not None:
        if program.said not in watched.headline or watched.once != 3:
            yield f"unmeasured, and said: {watched.headline!r}, --once {watched.once}"
        return
    if len(ours.results) != program.workers:
        yield f"{len(ours.results)} of {program.workers} workers report: {ours.outputs[0][-3:]}"
    for index, result in enumerate(ours.results):
        yield from _untrue_steps(program, watched.recording, f"worker:{index}", result["steps"])
    yield from (f"named, though nobody is slow: {each['sentence']}" for each in _named(watched.recording))
    empty = watched.recording.told("empty_batches")
    yield from (f"told, though no batch is empty: {each['sentence']}" for each in empty)


def judge(
    program: Program,
    keras: str,
    folder: Path,
    python: str = sys.executable,
    slowed: Mapping[str, str] = SLOW,
) -> list[str]:
    """Run it stock, under agents and, if it is declared, with a worker `slowed`; return what was not as it should be.

    `python` may be that of another environment: agents and console run in this one.
    """
    stock, ours, slow = (folder / part for part in ("stock", "ours", "slow"))
    for each in (stock, ours, slow):
        each.mkdir()
    with ThreadPoolExecutor(1) as beside:
        theirs = beside.submit(run_stock, program, keras, stock, python)
        if program.workers > 1:
            theirs.result()  # Beside it two workers would be slowed, one of them perhaps more than the other.
        watched = run_watched(program, keras, ours, python=python)
    found = [*faults(program, theirs.result(), watched)]
    if program.slow is not None:
        found += slow_faults(program, run_watched(program, keras, slow, slowed, python=python))
    return found


def slow_faults(program: Program, watched: Watched) -> Iterator[str]:
    """Yield each way in which the slowed worker was not told as it is."""
    named = _named(watched.recording)
    subjects = {each["subject"] for each in named}
    if subjects != {"worker:1"}:
        yield f"slowed worker:1, named {sorted(subjects) or 'nobody'}: {watched.headline!r}"
    elif program.slow != named[-1]["evidence"]["phase"]:
        yield f"slowed in {program.slow}: {named[-1]['sentence']!r}"


def _differences(program: Program, stock: Outcome, ours: Outcome) -> Iterator[str]:
    if stock.exits != ours.exits:
        yield f"exit {ours.exits}, stock {stock.exits}"
    if program.same_numbers and not _are_close(stock.results, ours.results, program.close):
        yield f"numbers {_short(ours.results)}, stock {_short(stock.results)}"
    if stock.files != ours.files:
        yield f"files {sorted(ours.files ^ stock.files)} differ"
    for theirs, own in zip(stock.outputs, ours.outputs, strict=True):
        if (lost := set(theirs) - set(own)) or (added := set(own) - set(theirs)):
            yield f"output: lost {sorted(lost)[:3]}, added {sorted(added)[:3] if not lost else ''}"


def _untrue_steps(program: Program, recording: Recording, subject: str, steps: int | list[int]) -> Iterator[str]:
    parts = [steps] if isinstance(steps, int) else steps
    columns = recording.steps.get(subject)
    if columns is None:
        if steps:
            yield f"{subject}: none of {steps} steps"
        return
    if columns["sequence"] != [number for part in parts for number in range(part)]:
        yield f"{subject}: {len(columns['sequence'])} steps of {steps}, {_order(columns['sequence'])}"
    for phase in PHASES:
        if phase in program.unknown or (phase == "reduce" and program.workers == 1):
            continue
        values = columns[phase][1:]
        known = sum(value is not None for value in values)
        if known < 0.9 * len(values):
            yield f"{subject}: {phase} known in {known} of {len(values)} steps"


def _order(sequence: list[int]) -> str:
    return "in order" if sequence == list(range(len(sequence))) else f"not in order: {sequence[:6]} ..."


def _named(recording: Recording) -> list[dict[str, Any]]:
    return recording.told("straggler")


def _are_close(stock: list[dict[str, Any]], ours: list[dict[str, Any]], bound: float) -> bool:
    pairs = zip(_numbers(stock), _numbers(ours), strict=False)
    same = all(math.isclose(a, b, rel_tol=bound, abs_tol=1e-7) or (math.isnan(a) and math.isnan(b)) for a, b in pairs)
    return len(_numbers(stock)) == len(_numbers(ours)) and same


def _numbers(results: list[dict[str, Any]]) -> list[float]:
    return [number for result in results for number in result["numbers"]]


def _short(results: list[dict[str, Any]]) -> str:
    return ", ".join(f"{number:.5g}" for number in _numbers(results)[:4])


def _variables(keras: str, python: str) -> dict[str, str]:
    places = os.pathsep.join(sys.path) if python == sys.executable else ""
    return os.environ | ENVIRONMENT | KERAS.get(keras, {}) | {"PYTHONPATH": places, "PYTHONUNBUFFERED": "1"}


def _command(program: Program, python: str) -> list[str | Path]:
    return [python, KINDS / f"{program.file}.py", program.name]


def _work(folder: Path) -> Path:
    work = folder / "work"
    work.mkdir(exist_ok=True)
    return work


def _cluster_file(folder: Path, workers: int) -> Path:
    addresses = [*map(str, free_addresses(2 * workers))]
    tasks = 'cluster = "alone"' if workers == 1 else f"[cluster]\nworker = {json.dumps(addresses[:workers])}"
    agents = [f'"worker:{index}" = "{address}"' for index, address in enumerate(addresses[workers:])]
    path = folder / "cluster.toml"
    own = f"[program]\ndirectory = {json.dumps(str(_work(folder)))}"
    path.write_text("\n".join([tasks, "[agents]", *agents[:workers], own, ""]))
    return path


def _watch(cluster: Path, out: Path) -> None:
    """Record until all tasks have ended."""
    command = [*_CONSOLE, "--cluster", cluster, "--headless", "--until", "finished", "--out", out]
    subprocess.run(command, timeout=PATIENCE, check=False, stderr=subprocess.DEVNULL)


def _ended(process: subprocess.Popen[bytes]) -> int | None:
    try:
        return process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        return None


def _exit(recording: Recording, index: int) -> int | None:
    ends = [frame["status"]["exit"] for frame in recording.frames if frame["task"] == f"worker:{index}"]
    return ends[-1]["code"] if ends and ends[-1] else None


def _outcome(folder: Path, exits: list[int | None], logs: list[Path]) -> Outcome:
    texts = [log.read_text(errors="replace") for log in logs]
    results = [json.loads(found[-1]) for text in texts if (found := re.findall(r"^result (.*)$", text, re.MULTILINE))]
    files = {str(path.relative_to(folder / "work")) for path in (folder / "work").rglob("*") if path.is_file()}
    return Outcome(exits, results, [_lines(text) for text in texts], files)


def _lines(text: str) -> list[str]:
    """Return the lines of the program itself, without numbers, which differ from run to run."""
    lines = [line for line in re.sub(r"\r|\x08+", "\n", text).splitlines() if not _NOISE.match(line)]
    return [
        re.sub(r"0x[\da-f]+|[\d.e+-]+", "#", line) for line in lines if not line.startswith(("--- tfscale", "result "))
    ]
