"""Start agents with real TensorFlow tasks on loopback, open the console on them, and end them all with it."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tfscale.core.cluster.task import Task
from tfscale.core.text import plural
from tfscale.trainer.launch.local_cluster import BIN, interrupt_on_signals, local_cluster, run_folder
from tfscale.trainer.slow.delay import Delay

ENDLESS = 1_000_000_000
"""Steps: the demo ends before them."""
RECOVERY = ("", "[recovery]", 'policy = "OnFailure"')
"""Lines of the cluster file: a task that is killed is started again with the others, from their last checkpoint."""


@dataclass(frozen=True, slots=True)
class Demo:
    """Choices of the command line."""

    workers: int
    slow: Mapping[str, str]
    """Delay by task, as `tfscale-train run --slow` takes them."""
    console: tuple[str, ...]
    """Arguments of the console."""

    @property
    def processes(self) -> str:
        return f"{plural(self.workers, 'TensorFlow worker')} and {plural(self.workers, 'agent')}"

    def say(self, line: str) -> None:
        """Write a line to the terminal while there is no screen on it; nothing where a script reads the output."""
        if "--headless" not in self.console:
            print(f"demo: {line}", file=sys.stderr, flush=True)


def parse(arguments: Sequence[str]) -> Demo:
    """Parse the command line; end the program with status 2 and one line where it is wrong."""
    parser = argparse.ArgumentParser(prog="scripts/demo", description=__doc__, allow_abbrev=False)
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="default 2")
    parser.add_argument(
        "--slow",
        action="append",
        default=[],
        metavar="TASK=60ms|1.3x[,PHASE][@30s]",
        help="a real delay in each step of this task: in compute or the named phase, from the start or from then on",
    )
    parser.add_argument("--headless", action="store_true", help="one JSON object a line instead of the screen")
    parser.add_argument("--seconds", type=float, metavar="S", help="end S seconds after the first step of all tasks")
    parser.add_argument("--out", metavar="FILE", help="with --headless: write there instead of stdout")
    chosen = parser.parse_args(arguments)
    if not 1 <= chosen.workers <= 16:
        parser.error(f"--workers {chosen.workers}: from 1 to 16")
    if not chosen.headless and not (sys.stdout.isatty() and sys.stdin.isatty()):
        parser.error("no terminal to draw on: use --headless")
    if chosen.out and not chosen.headless:
        parser.error("--out needs --headless")
    console = ["--headless"] if chosen.headless else []
    console += ["--seconds", str(chosen.seconds)] if chosen.seconds is not None else []
    console += ["--out", chosen.out] if chosen.out else []
    try:
        slow = dict(_slow(text, chosen.workers) for text in chosen.slow)
    except ValueError as error:
        parser.error(f"--slow {error}")
    return Demo(chosen.workers, slow, tuple(console))


def _slow(text: str, workers: int) -> tuple[str, str]:
    task, equals, delay = text.partition("=")
    if not equals:
        raise ValueError(f"{text!r}: write TASK=DELAY, for example worker:1=60ms")
    tasks = [f"worker:{index}" for index in range(workers)]
    if task not in tasks:
        raise ValueError(f"{text!r}: the tasks are {', '.join(tasks)}")
    Delay.parse(delay)
    return task, delay


def main() -> int:
    """Run the demo; return the console's exit status, or 1 where an agent could not start."""
    demo = parse(sys.argv[1:])
    interrupt_on_signals()
    failed: list[Task] = []
    demo.say(f"starting {demo.processes}")
    with run_folder("tfscale-demo-") as (folder, held):
        try:
            command, roles = training(demo, folder), {"worker": demo.workers}
            with local_cluster(folder, "demo", tasks=roles, command=command, held=[held], tables=RECOVERY) as cluster:
                try:
                    status = subprocess.call([BIN / "tfscale-console", "--cluster", cluster.path, *demo.console])
                finally:
                    failed = [task for task, agent in cluster.agents.items() if agent.poll() is not None]
                    demo.say(f"ending {demo.processes}: the workers save a last checkpoint, some seconds")
        except KeyboardInterrupt:
            status = 130
        for task in failed:
            print(f"demo: the agent of {task} ended early:", file=sys.stderr)
            print(cluster.agent_log(task), file=sys.stderr)
    return status or bool(failed)


def training(demo: Demo, folder: Path) -> list[str | Path]:
    """Return the command of every task, which trains without end, and goes on from its checkpoints in the folder."""
    slow = [word for task, delay in demo.slow.items() for word in ("--slow", f"{task}={delay}")]
    place = ["--steps", str(ENDLESS), "--checkpoints", folder / "checkpoints"]
    return [BIN / "tfscale-train", "run", "digits", "--strategy", "multi-worker", *place, *slow]


if __name__ == "__main__":
    sys.exit(main())
