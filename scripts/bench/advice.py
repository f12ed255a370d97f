"""The advice, tried: each remedy's gain as a run's advice predicts it, beside the gain that the remedy then brings.

    .venv/bin/python scripts/bench/advice.py RUNS [--rounds N] [--only WORD,...]    # as root
    .venv/bin/python scripts/bench/advice.py RUNS --record

Every task is on a network namespace of its own, whose link is shaped. RUNS collects each run as a line of JSON, and the
same command goes on from there. --record runs nothing: it prints the table and writes the record that the console
tells (console/tfscale/console/advice/advice_record.json), where cases of which RUNS has no pair stay as they are.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "tests/harness"))

import net_hosts
from local_cluster import end, start_agent, tasks_of, wait_until
from tfscale.core.comparison.judgement import judge_pairs, quick_step
from tfscale.core.comparison.step_times import FEWEST_STEPS, settled, step_times

BIN = Path(sys.executable).parent
RECORD = Path(__file__).parents[2] / "console/tfscale/console/advice/advice_record.json"
PROGRAMS = {
    "mlp": "mlp",
    "digits": "digits",
    "even layers": str(Path(__file__).parents[1] / "studies/even_layers.py"),
}
"""Program of `tfscale-train run` by its name in the table."""
MBIT = 1e6
_LOOPS = {"mlp": ("--pause", "1", "--in-turn"), "digits": ("--pause", "2.2")}
"""Flags of `advice_program.py` in the place of each program: batches that wait for each step, and batches that take
longer than a step."""


@dataclass(frozen=True)
class Place:
    """Surroundings of a program, and its flags."""

    flags: tuple[str, ...] = ()
    tasks: dict[str, int] = field(default_factory=lambda: {"worker": 2})
    rate: float = 2.5 * MBIT
    """Bits a second that each host may send, and receive."""
    steps: int = 26
    strategy: str = "multi-worker"
    programs: tuple[str, ...] = ("mlp", "digits")
    is_fed: bool = False
    """True for the bench's own program, whose batches come slowly."""
    slow: tuple[str, ...] = ()

    def command(self, program: str, result: Path) -> list[str | Path]:
        """Return the command of each task."""
        flags = ["--steps", str(self.steps), *self.flags, "--json", result]
        if self.is_fed:
            return [sys.executable, Path(__file__).with_name("advice_program.py"), *_LOOPS[program], *flags]
        slow = [word for each in self.slow for word in ("--slow", each)]
        return [BIN / "tfscale-train", "run", PROGRAMS[program], "--strategy", self.strategy, *flags, *slow]


LINK = Place()
INPUT = replace(LINK, is_fed=True, rate=5 * MBIT)
COMPUTE = replace(LINK, rate=5 * MBIT, slow=("worker:0=1000ms", "worker:1=1000ms"))
STRAGGLER = replace(LINK, rate=10 * MBIT, slow=("worker:1=500ms",), steps=60)
SERVER = Place(
    flags=("--loop", "custom"),
    tasks={"chief": 1, "worker": 4, "ps": 1},
    strategy="parameter-server",
    steps=64,
    rate=10 * MBIT,
    programs=("mlp", "even layers"),
)
BASES = {"link": LINK, "input": INPUT, "compute": COMPUTE, "straggler": STRAGGLER, "server": SERVER}
REMEDIES = {
    "wire": ("link", "half the bytes", replace(LINK, flags=("--with", "wire=bfloat16"))),
    "links x2": ("link", "half the transfer", replace(LINK, rate=5 * MBIT)),
    "accumulation": (
        "link",
        "a quarter of the all-reduces",
        replace(LINK, flags=("--batch", "256", "--with", "accumulation=4")),
    ),
    "batch x2": ("link", "compute and input double", replace(LINK, flags=("--batch", "128"))),
    "fewer workers": (
        "compute",
        "a shorter ring, or none",
        replace(COMPUTE, tasks={"worker": 1}, slow=("worker:0=1000ms",)),
    ),
    "workers x2": (
        "compute",
        "ring all-reduce",
        replace(COMPUTE, tasks={"worker": 4}, slow=tuple(f"worker:{index}=1000ms" for index in range(4))),
    ),
    "prefetch": ("input", "input beside training", replace(INPUT, flags=("--maps", "4", "--prefetch", "4"))),
    "compute x2": ("compute", "half the compute", replace(COMPUTE, slow=("worker:0=500ms", "worker:1=500ms"))),
    "straggler gone": ("straggler", "as long in a step as the median of the others", replace(STRAGGLER, slow=())),
    "servers x2": (
        "server",
        "each server moves half",
        replace(SERVER, tasks=SERVER.tasks | {"ps": 2}),
    ),
}
"""Base, model of the prediction, and place by remedy."""


def run(program: str, place: Place, *, is_base: bool) -> dict[str, Any]:
    """Run a program to its end; return its time for an example and, of a base, its advice."""
    tasks = tasks_of(place.tasks)
    with tempfile.TemporaryDirectory(prefix="advice-") as name, net_hosts.hosts(len(tasks)):
        folder = Path(name)
        for host in range(len(tasks)):
            net_hosts.narrow(host, place.rate)
        addresses: dict[str, list[str]] = {}
        for host, (role, _) in enumerate(tasks):
            addresses.setdefault(role, []).append(f"{net_hosts.address(host)}:2222")
        lines = [f"{role} = {json.dumps(found)}" for role, found in addresses.items()]
        cluster = folder / "cluster.toml"
        cluster.write_text("\n".join(["[cluster]", *lines, "[links]", f'default = "{place.rate / MBIT:g}Mbit/s"']))
        variables = {"TF_NUM_INTRAOP_THREADS": "1", "TFSCALE_INSECURE": "1", "TFSCALE_STEPS": name}
        agents = []
        try:
            for host, (role, index) in enumerate(tasks):
                result = folder / f"{role}{index}.json"
                command = place.command(program, result)
                own = {"role": role, "before": net_hosts.inside(host), "said": subprocess.DEVNULL}
                agents.append(start_agent(folder, cluster, index, command, variables, **own))
            wait_until((folder / f"{tasks[0][0]}0.json").exists, 600)
            time.sleep(1.5)  # its last report
            found: dict[str, Any] = times_of_example(folder)
            if is_base:
                advise = [*net_hosts.inside(0), BIN / "tfscale-train", "advise", "--cluster", cluster, "--json"]
                told = subprocess.run([*advise, "--insecure"], capture_output=True, text=True, check=False)
                found["advice"] = json.loads(told.stdout) if told.returncode == 0 else None
                found["problem"] = told.stderr
            return found
        finally:
            end(agents)


def times_of_example(folder: Path) -> dict[str, float | None]:
    """Return the seconds of an example, of a step where no examples are known, by a run's quick and median step.

    Of parameter servers both are the mean.
    """
    ends: dict[str, list[float]] = {}
    status: dict[str, Any] = {}
    for path in folder.glob("*.jsonl"):
        for frame in map(json.loads, path.read_text().splitlines()):
            probe = frame.get("probe") or {}
            status = probe if probe.get("strategy") else status
            for batch in frame.get("steps", ()):
                ends.setdefault(batch["subject"], []).extend(batch["end"])
    examples = status.get("examples_per_step") or 1
    if "ParameterServer" in (status.get("strategy") or ""):
        # Workers do not wait for each other: it is the pace of all of them together.
        every = settled(sorted(end for found in ends.values() for end in found))
        pace = (every[-1] - every[0]) / (len(every) - 1) / examples if len(every) >= FEWEST_STEPS else None
        return {"quick": pace, "median": pace}
    times = {
        task: settled(step_times(found, [])).tolist() for task, found in ends.items() if len(found) >= FEWEST_STEPS
    }
    if not times:
        return {"quick": None, "median": None}
    steps = times[min(times)]
    return {"quick": quick_step(steps) / examples, "median": median(steps) / examples}


def turns(only: Sequence[str], programs: Sequence[str], number: int) -> Iterator[tuple[str, str, Place, bool]]:
    """Yield program, setting and place of each run of a round: each remedy beside its base, every other round back."""
    chosen = {name: row for name, row in REMEDIES.items() if not only or name in only}
    for program in programs:
        for base, place in BASES.items():
            remedies = [(program, name, row[2], False) for name, row in chosen.items() if row[0] == base]
            is_tried = remedies and program in place.programs
            settings = [(program, base, place, True), *remedies] if is_tried else []
            yield from settings[:: -1 if number % 2 else 1]


def collect(path: Path, rounds: int, only: Sequence[str], programs: Sequence[str], speed: float) -> None:
    """Make the runs of all rounds that the file does not have, with links so many times as fast."""
    done = {(each["round"], each["program"], each["setting"]) for each in lines_of(path)}
    for number in range(rounds):
        for program, setting, place, is_base in turns(only, programs, number):
            if (number, program, setting) in done:
                continue
            began = time.monotonic()
            try:
                found = run(program, replace(place, rate=speed * place.rate), is_base=is_base)
            except AssertionError:
                found = {"quick": None, "median": None}
            line = {"round": number, "program": program, "setting": setting, "at": time.time(), **found}
            line["load"] = os.getloadavg()[0]
            with path.open("a") as file:
                file.write(json.dumps(line) + "\n")
            took = time.monotonic() - began
            print(
                f"{number} {program} {setting}: {found['quick']} s an example, {took:.0f} s",
                file=sys.stderr,
                flush=True,
            )


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def cases(runs: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield each remedy's predicted and measured gain, of each program."""
    for program in PROGRAMS:
        own = {(each["setting"], each["round"]): each for each in runs if each["program"] == program and each["quick"]}
        for name, (base, model, _) in REMEDIES.items():
            rounds = [number for setting, number in own if setting == base and (name, number) in own]
            told = [(own[base, number].get("advice") or {}).get("would_help", ()) for number in rounds]
            gains = [row["throughput_factor"] for each in told for row in each if row["assumes"] == model]
            if not rounds or not gains:
                continue
            pairs = [own[key, number] for number in rounds for key in (base, name)]
            judged = judge_pairs(*([own[key, number]["quick"] for number in rounds] for key in (base, name)))
            yield {
                "remedy": name,
                "model": model,
                "program": program,
                "predicted": round(median(gains), 3),
                "measured": round(1 / (1 + judged.change), 3),
                "low": round(1 / (1 + judged.high), 3) if judged.low > -1 else None,
                "high": round(1 / (1 + judged.low), 3) if judged.low > -1 else None,
                "rounds": len(rounds),
                "when": time.strftime("%Y-%m-%d", time.gmtime(max(each["at"] for each in pairs))),
                "load": [round(extreme(each["load"] for each in pairs)) for extreme in (min, max)],
            }


def record(runs: Sequence[dict[str, Any]]) -> None:
    """Write the record, in which cases without runs stay as they are, and print its table."""
    known = [*json.loads(RECORD.read_text())["cases"], *cases(runs)]
    newest = {(each["remedy"], each["program"]): each for each in known}
    found = [newest[each] for each in ((name, program) for program in PROGRAMS for name in REMEDIES) if each in newest]
    print("| remedy | program | predicted | measured | 95 % interval | error |\n| --- | --- | --- | --- | --- | --- |")
    for each in found:
        interval = f"{each['low'] - 1:+.0%} to {each['high'] - 1:+.0%}" if each["low"] else "not known, one pair"
        error = each["predicted"] / each["measured"] - 1
        gains = f"{each['predicted'] - 1:+.0%} | {each['measured'] - 1:+.0%}"
        print(f"| {each['remedy']} | {each['program']} | {gains} | {interval} | {error:+.0%} |")
    errors = [abs(each["predicted"] / each["measured"] - 1) for each in found]
    wrong = [each for each in found if (each["predicted"] - 1) * (each["measured"] - 1) < 0]
    print(f"\nmedian error {median(errors):.1%} of {len(found)} cases, wrong sign: {len(wrong)}")
    machine = f"{os.cpu_count()} shared cores, {platform.machine()}"
    RECORD.write_text(json.dumps({"machine": machine, "cases": found}, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, help="file of the runs")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each setting")
    parser.add_argument("--only", default="", help="names of remedies, with commas between them")
    parser.add_argument("--program", choices=PROGRAMS, help="one of the programs; default all")
    parser.add_argument("--speed", type=float, default=1.0, metavar="F", help="of all links: 4 shows less in less time")
    parser.add_argument("--record", action="store_true", help="write the record from the runs that there are")
    flags = parser.parse_args()
    if flags.record:
        record(lines_of(flags.runs))
    elif why := net_hosts.missing():
        parser.error(why)
    else:
        only = [name for name in flags.only.split(",") if name]
        collect(flags.runs, flags.rounds, only, [flags.program] if flags.program else PROGRAMS, flags.speed)


if __name__ == "__main__":
    main()
