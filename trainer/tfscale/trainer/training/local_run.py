"""A run on this machine alone: its cluster, the command that watches it, its result or the reason of its end."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tfscale.core.cluster.task import Task
from tfscale.trainer.training.local_cluster import BIN, LocalCluster, interrupt_on_signals, local_cluster
from tfscale.trainer.training.plan import Plan
from tfscale.trainer.training.result import describe, read_result

INTERRUPTED = 130
REFUSED = 2


def run_locally(plan: Plan, words: Sequence[str]) -> int:
    """Run a plan, which `words` asked for, and print its result; return the exit status."""
    with tempfile.TemporaryDirectory(prefix="tfscale-run-") as name:
        folder, added = Path(name), list[str]()
        result = plan.json or folder / "result.json"
        if plan.json is None:
            added += ["--json", str(result)]
        if "evaluator" in plan.local_tasks and plan.checkpoints is None:
            (folder / "checkpoints").mkdir()
            added += ["--checkpoints", str(folder / "checkpoints")]
        status = _run(folder, plan.program.name, plan.local_tasks, [*words, *added])
        if status == 0:
            print(describe(read_result(result)))
    return status


def run_program_locally(program: str, words: Sequence[str]) -> int:
    """Run a program that has a command line of its own, and print what it said; return the exit status."""
    with tempfile.TemporaryDirectory(prefix="tfscale-run-") as name:
        return _run(Path(name), program, {"worker": 1}, words, tells_log=True)


def _run(folder: Path, program: str, tasks: Mapping[str, int], words: Sequence[str], tells_log: bool = False) -> int:
    interrupt_on_signals()
    command = [BIN / "tfscale-train", *words]
    try:
        with local_cluster(folder, program, tasks, command, ["--exit-with-task"]) as cluster:
            print(f"{', '.join(map(str, cluster.agents))} on this machine; watch them:", file=sys.stderr)
            print(f"    tfscale-console --cluster {cluster.path}", file=sys.stderr, flush=True)
            failed = cluster.wait()
            if failed is not None:
                return _tell_why(cluster, failed)
            if tells_log:
                print(cluster.task_log(cluster.ending[0]), end="")
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


def _tell_why(cluster: LocalCluster, task: Task) -> int:
    """Print why a task has ended, one line where it was refused, else the end of its log; return the exit status."""
    log = cluster.task_log(task)
    refusals = [line for line in log.splitlines() if line.startswith("tfscale-train: ")]
    if cluster.agents[task].poll() == REFUSED and refusals:
        print(refusals[-1], file=sys.stderr)
        return REFUSED
    print(f"tfscale-train: {task} ended early:\n{log[-2000:] or cluster.agent_log(task)}", file=sys.stderr)
    return 1
