"""A run on this machine: its cluster, the command that watches it, and its result or its failure."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tfscale.core.cluster.task import Role, Task
from tfscale.core.settings.exit_status import ExitStatus
from tfscale.core.text import signal_name
from tfscale.trainer.launch.local_cluster import BIN, LocalCluster, interrupt_on_signals, local_cluster, run_folder
from tfscale.trainer.launch.plan import Plan
from tfscale.trainer.launch.result import describe, read_result

SHOWN = 20
"""Lines of the log of a task that failed."""
_ERROR = re.compile(r"[\w.]*(Error|Exception)\b")
_NOT_SAID = re.compile(
    r"--- tfscale: |tfscale-train: |WARNING:tensorflow:|WARNING: All log messages before absl|[IWEF]\d{4} [\d:.]+ "
)


def run_locally(plan: Plan, words: Sequence[str]) -> int:
    """Run a plan, which `words` asked for, and print its result; return the exit status."""
    with run_folder() as (folder, held):
        added = ["--json", str(folder / "result.json")]
        if "evaluator" in plan.local_tasks and plan.checkpoints is None:
            added += ["--checkpoints", str(folder / "checkpoints")]
        status = _run(folder, held, plan.program.name, plan.local_tasks, [*words, *added])
        if status == 0:
            result = read_result(folder / "result.json")
            print(describe(result))
            if plan.json is not None:
                result.write(plan.json)
        if status == ExitStatus.INTERRUPTED:
            print(f"tfscale-train: interrupted; {_state(plan)}", file=sys.stderr)
    return status


def _state(plan: Plan) -> str:
    if plan.checkpoints is None:
        return "nothing was kept, since --checkpoints DIR was not given"
    newest = "the same command goes on from the newest checkpoint"
    return f"{newest} in {plan.checkpoints}" if any(plan.checkpoints.glob("ckpt-*")) else "no checkpoint was made yet"


def run_program_locally(program: str, tasks: Mapping[str, int], words: Sequence[str]) -> int:
    """Run a program that has a command line of its own, print its output, and return the exit status."""
    with run_folder() as (folder, held):
        status = _run(folder, held, program, tasks, words, _OwnLines())
    if status == ExitStatus.INTERRUPTED:
        print(f"tfscale-train: interrupted; nothing was kept, since {program} makes no checkpoints", file=sys.stderr)
    return status


def _print_progress(line: str) -> None:
    """Print lines such as `step 100: loss 0.8214`."""
    if line.startswith("step "):
        print(line, file=sys.stderr, flush=True)


class _OwnLines:
    """Printer of the program's own lines: not the agent's, not TensorFlow's log, not the reason of the end.

    A traceback goes to stderr, and so do all lines after it until the next step.
    """

    def __init__(self) -> None:
        self._is_failing = False

    def __call__(self, line: str) -> None:
        if line.startswith(("Traceback (most recent call last)", "step ")):
            self._is_failing = not line.startswith("step ")
        if not _NOT_SAID.match(line):
            print(line, file=sys.stderr if self._is_failing else sys.stdout, flush=True)


def _run(
    folder: Path,
    held: int,
    program: str,
    tasks: Mapping[str, int],
    words: Sequence[str],
    show: Callable[[str], None] = _print_progress,
) -> int:
    interrupt_on_signals()
    command: list[str | Path] = [BIN / "tfscale-train", *words]
    try:
        flags = ["--exit-with-task"]
        with local_cluster(folder, program, tasks=tasks, command=command, flags=flags, held=[held]) as cluster:
            print(f"{', '.join(map(str, cluster.agents))} on this machine; watch them:", file=sys.stderr)
            print(f"    tfscale-console --cluster {cluster.path}", file=sys.stderr, flush=True)
            failed = cluster.wait(_Progress(cluster, show).follow)
            if failed is not None:
                return _print_reason(cluster, failed, isinstance(show, _OwnLines) and failed in _leading(cluster))
    except KeyboardInterrupt:
        return ExitStatus.INTERRUPTED
    return 0


class _Progress:
    """Lines of the leading task and the evaluator; each line is printed once complete."""

    def __init__(self, cluster: LocalCluster, show: Callable[[str], None]) -> None:
        self._cluster = cluster
        self._show = show
        self._read = dict.fromkeys(_leading(cluster), 0)

    def follow(self) -> None:
        """Print new lines."""
        for task, read in self._read.items():
            complete, end, _ = self._cluster.task_log(task, read).rpartition(b"\n")
            self._read[task] += len(complete + end)
            for line in _text(complete).splitlines():
                self._show(line)


def _leading(cluster: LocalCluster) -> list[Task]:
    """Return the leading task, the first that ends by itself, and the evaluator if there is one."""
    leads, *others = cluster.ending
    return [leads, *(task for task in others if task.role is Role.EVALUATOR)]


def _print_reason(cluster: LocalCluster, task: Task, was_said: bool) -> int:
    """Print why a task ended: its own reason, or else the end of its log. Return the exit status.

    Args:
        cluster: the cluster of the task.
        task: the task that has failed.
        was_said: True if the task's own output, also a traceback, has been printed.
    """
    lines, status = _text(cluster.task_log(task)).splitlines(), cluster.agents[task].poll()
    reasons = [line for line in lines if line.startswith("tfscale-train: ")]
    if reasons and status in (ExitStatus.NOTHING, ExitStatus.USAGE):
        print(reasons[-1], file=sys.stderr)
        return int(status)
    errors = [line for line in lines if _ERROR.match(line)]
    why = f"tfscale-train: {task} ended early: {errors[-1] if errors else _ended(status, cluster.killed_by(task))}"
    if errors and was_said:
        print(why, file=sys.stderr)
    else:
        print(f"{why}; the end of its log:", file=sys.stderr)
        print("\n".join(lines[-SHOWN:]) or cluster.agent_log(task), file=sys.stderr)
    return ExitStatus.NOTHING


def _ended(status: int | None, task_killed_by: int | None) -> str:
    """Return the end of a task from its agent's status: an agent ends by the signal that has ended its task."""
    if status is None or status >= 0:
        return f"exit status {status}"
    return f"{'' if task_killed_by == -status else 'its agent was '}killed by {signal_name(-status)}"


def _text(log: bytes) -> str:
    return log.decode(errors="replace")
