"""Plan of a scaling measurement: which command with how many workers, kept in a file for jobs that run one by one."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tfscale.core.comparison.program_files import digest, files_of
from tfscale.core.errors import TfscaleError, UsageError
from tfscale.trainer.compare.trials import (
    Read,
    Trial,
    check_command,
    check_steps,
    check_words,
    program_trials,
)
from tfscale.trainer.launch.launched_cluster import launcher_of
from tfscale.trainer.launch.shaped_links import parse_link
from tfscale.trainer.saving.whole_files import reason, write_text
from tfscale.trainer.scale.scale_flags import MOST_WORKERS, USUAL_RUNS, USUAL_SIZES

FILE = "plan.json"


@dataclass(frozen=True, slots=True)
class ScalingPlan:
    """All that decides what is measured."""

    program: str | None
    """Program of `tfscale-train run`; None for a command of the user's own."""
    words: Sequence[str]
    """Further words of that program, or the command."""
    sizes: Sequence[int]
    """Numbers of workers, the smallest first; of hosts where the number of workers is the same."""
    is_strong: bool
    global_batch: int | None
    cores: int
    """Cores of each worker."""
    runs: int
    """Runs of each size."""
    steps: int | None
    """Steps of a run; None: it ends by itself."""
    files: Mapping[str, str]
    """Digest of each file that the command names."""
    link: str = ""
    """Link of each host, as it was asked for; empty: all workers are on this machine's loopback."""
    workers: int | None = None
    """Number of workers where it is the number of their hosts that differs; else each worker is a host of its own."""

    launcher: Sequence[str] = field(default_factory=list)
    """Words of what starts the agents on hosts; none: they are started on this machine."""
    cluster: str | None = None
    """Cluster file of these hosts."""

    @property
    def kind(self) -> str:
        """Name of the way of scaling."""
        return "strong" if self.is_strong else "weak"

    @property
    def noun(self) -> str:
        """Word for one of those whose number is varied."""
        return "host" if self.workers else "worker"

    def workers_of(self, size: int) -> int:
        """Return the number of workers of a size."""
        return self.workers or size


def plan_of(flags: argparse.Namespace, run_words: Sequence[str], command: Sequence[str], plan: Read) -> ScalingPlan:
    """Return the plan of a command line. Raises UsageError.

    Args:
        flags: of this command.
        run_words: further flags, for `tfscale-train run`.
        command: of a script.
        plan: reads a command line of `run`.
    """
    sizes = flags.hosts or flags.sizes or list(USUAL_SIZES)
    _check_hosts(flags)
    words = list(command) if flags.program is None else list(run_words)
    made = ScalingPlan(
        program=flags.program,
        words=words,
        sizes=sizes,
        is_strong=bool(flags.strong),
        global_batch=flags.global_batch,
        cores=1 if flags.launcher else flags.cores or _own_cores(flags.workers or max(sizes)),
        runs=flags.runs or USUAL_RUNS,
        steps=flags.steps,
        files=_digests([str(flags.program), *words]),
        link=flags.link or "",
        workers=flags.workers,
        launcher=flags.launcher or [],
        cluster=flags.cluster,
    )
    check_words(flags.program, run_words, command)
    _check_batch(made)
    check_steps(made.steps)
    trials_of(made, plan)
    return made


def _own_cores(workers: int) -> int:
    """Return the cores that each of so many workers can have for itself here, at least 1."""
    return max(1, len(os.sched_getaffinity(0)) // workers)


def _check_hosts(flags: argparse.Namespace) -> None:
    """Check that hosts are hosts: workers of one are never called several. Raises UsageError."""
    if flags.cluster is not None and flags.launcher is None:
        raise UsageError("--cluster: say how its hosts are reached, for example --launcher './on_hosts {hosts}'")
    for name in ("link", "hosts", "cores") if flags.launcher is not None else ():
        if getattr(flags, name) is not None:
            raise UsageError(f"--{name}: is of this machine, and --launcher starts the workers on others")
    if flags.hosts is None:
        if flags.workers is not None:
            raise UsageError("--workers: is what is varied; give --sizes 1,2,4, or the hosts of these, --hosts 1,2,4")
        return
    if flags.workers is None:
        raise UsageError("--hosts: say how many workers they have together, for example --workers 4")
    if flags.link is None:
        raise UsageError("--hosts: this machine is one host; with --link 200mbit each is a network namespace")
    for hosts in flags.hosts:
        if flags.workers % hosts:
            raise UsageError(f"--workers {flags.workers}: cannot be divided by {hosts} hosts")


def _check_batch(plan: ScalingPlan) -> None:
    """Check that the batch is the one of weak or of strong scaling, as far as the words tell. Raises UsageError."""
    if plan.global_batch is not None and not plan.is_strong:
        raise UsageError(f"--global-batch {plan.global_batch}: a batch of all workers together needs --strong")
    if plan.is_strong and plan.program is not None and plan.global_batch is None:
        raise UsageError("--strong: say the batch of all workers together, for example --global-batch 256")
    if plan.program is not None and plan.is_strong and "--batch" in plan.words:
        raise UsageError("--batch: with --strong the batch of a worker follows from --global-batch")
    has_batch = any("{batch}" in word for word in plan.words)
    if plan.program is None and has_batch != (plan.global_batch is not None):
        raise UsageError("{batch} in the command, a worker's share, and --strong --global-batch N need each other")
    for count in map(plan.workers_of, plan.sizes if plan.global_batch is not None else ()):
        assert plan.global_batch is not None
        if plan.global_batch % count:
            raise UsageError(f"--global-batch {plan.global_batch}: cannot be divided by {count} workers")


def trials_of(plan: ScalingPlan, read: Read) -> dict[int, Trial]:
    """Return the trial of each size. Raises UsageError where one cannot run."""
    made = _script_trials(plan) if plan.program is None else _program_trials(plan, plan.program, read)
    for trial in made:
        if trial.refused:
            raise UsageError(trial.refused)
    variables = {
        "CUDA_VISIBLE_DEVICES": "",  # Workers on one machine are on its CPU, as with `tfscale-train run`.
        "TF_NUM_INTRAOP_THREADS": str(plan.cores),
        "OMP_NUM_THREADS": str(plan.cores),
        "TF_NUM_INTEROP_THREADS": "2",
    }
    if plan.launcher:
        cluster = Path(plan.cluster) if plan.cluster else None
        return {
            size: dataclasses.replace(trial, launcher=launcher_of(plan.launcher, cluster, size))
            for size, trial in zip(plan.sizes, made, strict=True)
        }
    link, found = parse_link(plan.link) if plan.link else None, {}
    for size, trial in zip(plan.sizes, made, strict=True):
        count = sum(trial.tasks.values())
        cores = cores_of(max(1, count), plan.cores)
        found[size] = dataclasses.replace(
            trial,
            variables=variables,
            cores=cores,
            hosts=size if plan.workers else count,
            link=link if count else None,
        )
    return found


def _script_trials(plan: ScalingPlan) -> list[Trial]:
    check_command(plan.words)
    found = []
    for size in plan.sizes:
        count = plan.workers_of(size)
        share = str((plan.global_batch or 0) // count)
        words = [word.replace("{workers}", str(count)).replace("{batch}", share) for word in plan.words]
        found.append(Trial(str(size), {"workers": str(count)}, words, {"worker": count}))
    return found


def _program_trials(plan: ScalingPlan, program: str, read: Read) -> list[Trial]:
    words = list(plan.words)
    if "--strategy" not in words:
        words += ["--strategy", "multi-worker"]
    if plan.steps is not None:
        words += ["--steps", str(plan.steps)]
    if plan.global_batch is not None:
        words += ["--global-batch", str(plan.global_batch)]
    return program_trials(
        program, words, {str(size): {"workers": str(plan.workers_of(size))} for size in plan.sizes}, read
    )


def cores_of(tasks: int, each: int) -> list[list[int]]:
    """Return the cores of each task, by number; where there are too few, some are those of several tasks."""
    there = sorted(os.sched_getaffinity(0))
    return [sorted({there[(task * each + one) % len(there)] for one in range(each)}) for task in range(tasks)]


def write_plan(plan: ScalingPlan, folder: Path) -> None:
    """Write the plan into a folder, also over one of fewer sizes or runs, whose runs then count.

    Raises UsageError where another one is there already, TfscaleError if it cannot be written.
    """
    if (folder / FILE).exists():
        kept = read_plan(folder)
        is_part = set(kept.sizes) <= set(plan.sizes) and kept.runs <= plan.runs
        if not is_part or dataclasses.replace(kept, sizes=plan.sizes, runs=plan.runs) != plan:
            raise UsageError(f"{folder}: holds another plan; remove that folder, or name another one with --folder")
        if kept == plan:
            return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_text(folder / FILE, json.dumps(dataclasses.asdict(plan), indent=1) + "\n")
    except OSError as error:
        raise TfscaleError(f"{folder / FILE}: {reason(error)}; name another folder with --folder") from None


def read_plan(folder: Path) -> ScalingPlan:
    """Return the plan in a folder. Raises UsageError where there is none."""
    path = folder / FILE
    try:
        plan = ScalingPlan(**json.loads(path.read_text(encoding="utf-8")))
        if not (plan.sizes and all(0 < size <= MOST_WORKERS for size in plan.sizes) and plan.cores > 0):
            raise ValueError
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}; make the plan by: tfscale-train scale plan") from None
    except (ValueError, TypeError):
        raise UsageError(f"{path}: is no plan; make it anew by: tfscale-train scale plan") from None
    return plan


def check_files(plan: ScalingPlan) -> None:
    """Check that the files of the command are those of the plan: others are another program. Raises UsageError."""
    for name, kept in plan.files.items():
        if not Path(name).is_file():
            raise UsageError(f"{name}: is not here; call it in the folder in which the plan was made")
        if digest(Path(name)) != kept:
            raise UsageError(f"{name}: has changed since the plan was made; make another one with --folder")


def _digests(words: Sequence[str]) -> dict[str, str]:
    return {str(path): digest(path) for path in files_of(words)}
