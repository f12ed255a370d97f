"""Run of one trial: its agents on this machine, what they measured, or the reason why not."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from tfscale.core.cluster.task import Task
from tfscale.core.failure.clues import Clue, find_clue
from tfscale.core.failure.failure_kinds import OUT_OF_MEMORY
from tfscale.core.log_clues import OVERRULED, OWN, TAKEN
from tfscale.core.text import duration, elapsed, signal_name
from tfscale.trainer.compare.kept_runs import no_room
from tfscale.trainer.compare.measured_run import MeasuredRun, StepFiles
from tfscale.trainer.compare.result_file import machine_words
from tfscale.trainer.compare.trials import Trial, command_of, variables_of
from tfscale.trainer.launch.launched_cluster import launched_cluster
from tfscale.trainer.launch.local_cluster import LocalCluster, local_cluster, run_folder
from tfscale.trainer.launch.result import LAST, read_result
from tfscale.trainer.launch.shaped_links import linked_hosts


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one run."""

    steps: int | None
    """Steps after which a run is ended; None: it ends by itself."""
    deadline: float
    """Moment of `time.monotonic` at which the time for all runs is over."""
    patience: float
    """Seconds within which a run has its first step."""

    @property
    def left(self) -> str:
        """Time that is left, in words."""
        return elapsed(max(0.0, self.deadline - time.monotonic()))

    def check_room(self, seconds: float) -> None:
        """Check that a run of so many seconds ends in time. Raises OutOfTime."""
        if time.monotonic() + seconds > self.deadline:
            raise OutOfTime


def time_is_over(new: Sequence[MeasuredRun], longest: float, budget: float) -> str:
    """Return what a call says whose time was over before its end.

    Args:
        new: runs that it has made.
        longest: wall time of the longest run that is known, in seconds.
        budget: its time, in seconds.
    """
    if new:
        return "the time was over before the end: the same command goes on from here"
    known = f" than the {elapsed(longest)} of the longest run" if longest else ""
    return f"no run has ended within --budget {elapsed(budget)}: the same command goes on with more{known}"


_ERROR = " ERROR "
"""Level of the lines in an agent's log that tell why a task does not run."""
_ROOM = 1 << 16
"""Bytes that are free on a disk that is not full."""


class OutOfTime(Exception):
    """The time for all runs is over, or would be before a run has ended."""


class _Enough(Exception):
    """A run has made its steps."""


class _Hopeless(Exception):
    """A run makes no first step."""


class _Watch:
    """Look at a run while it runs."""

    def __init__(self, limits: Limits, folder: Path, is_here: bool) -> None:
        self._limits, self.files, self._is_here = limits, StepFiles(folder), is_here
        self._began = time.monotonic()
        self.memory = 0

    def look(self) -> None:
        """Read what is new. Raises _Enough, _Hopeless or OutOfTime."""
        self.files.follow()
        if self._is_here:
            self.memory = max([self.memory, *map(_most_memory, self.files.pids)])
        if self._limits.steps is not None and self.files.most_steps >= self._limits.steps:
            raise _Enough
        self._limits.check_room(0.0)
        if not self.files.most_steps and time.monotonic() > self._began + self._limits.patience:
            raise _Hopeless


def run_trial(trial: Trial, number: int, limits: Limits, shared: Path | None = None) -> MeasuredRun:
    """Run a trial in this round, and return what was measured. Raises OutOfTime, OSError and TfscaleError.

    Args:
        trial: what is run.
        number: of the round.
        limits: of the run.
        shared: folder that the hosts of a launcher share; None for a trial without one.
    """
    if trial.refused:
        return MeasuredRun(trial.name, number, f"refused: {trial.refused}")
    began, wall, load = time.time(), time.monotonic(), os.getloadavg()[0]
    with run_folder("tfscale-compare-", shared) as (folder, held):
        (steps := folder / "steps").mkdir()
        watch = _Watch(limits, steps, is_here=trial.launcher is None)
        reason, is_short = "", False
        with _cluster(trial, folder, steps, held) as cluster:
            try:
                failed = cluster.wait(watch.look)
                if failed is not None:
                    reason, is_short = _reason(cluster, failed)
            except _Hopeless:
                reason = f"no step within {duration(limits.patience)} (--patience)"
            except _Enough:
                pass
            wall = time.monotonic() - wall
            reason = _untaken(trial, cluster, reason)
        check_disk(folder)
        watch.files.follow()
        run = MeasuredRun(
            trial.name,
            number,
            reason,
            is_short,
            wall=wall,
            began=began,
            load=load if trial.launcher is None else None,
            machine=machine_words() if trial.launcher is None else "",
            memory=watch.memory or None,
            device_memory=watch.files.device_memory,
            has_own_cores=_own_cores(trial),
        )
        return run if reason else watch.files.measured(run, began, _logged(folder / "result.json"))


@contextlib.contextmanager
def _cluster(trial: Trial, folder: Path, steps: Path, held: int) -> Iterator[LocalCluster]:
    command, flags = command_of(trial, folder / "result.json"), ["--exit-with-task", *trial.flags]
    variables = variables_of(trial, steps)
    if trial.launcher is not None:
        with launched_cluster(folder, trial.launcher, command=command, flags=flags, variables=variables) as launched:
            yield launched
        return
    with contextlib.ExitStack() as stack:
        hosts = [] if trial.link is None else stack.enter_context(linked_hosts(trial.hosts, trial.link))
        yield stack.enter_context(
            local_cluster(
                folder,
                "compare",
                tasks=trial.tasks,
                command=command,
                flags=flags,
                held=[held],
                variables=variables,
                cores=trial.cores,
                hosts=hosts,
            )
        )


def check_disk(folder: Path) -> None:
    """Check that a run did not fill the disk of its folder: its steps would be missing. Raises TfscaleError."""
    try:
        (folder / "room").write_bytes(bytes(_ROOM))
    except OSError as error:
        raise no_room(folder.parent, error) from None


def _own_cores(trial: Trial) -> bool | None:
    given = [core for cores in trial.cores for core in cores]
    return len(given) == len(set(given)) if given else None


def _logged(path: Path) -> list[tuple[int, float]]:
    """Return each step with the mean of its ten newest losses, where `tfscale-train run` has written them."""
    try:
        losses = read_result(path).loss
    except OSError:
        return []
    newest = (losses[max(0, place - LAST + 1) : place + 1] for place in range(len(losses)))
    return [(few[-1][0], fmean(loss for _, loss in few)) for few in newest]


def _most_memory(pid: int) -> int:
    """Return the most resident bytes that a process has had so far; 0 once it has ended."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


def _reason(cluster: LocalCluster, failed: Task) -> tuple[str, bool]:
    """Return why a run has failed, from the log of the task that knows it, and whether memory was short."""
    clues = {task: _clue(cluster, task) for task in (failed, *cluster.agents)}
    task = next((task for task, clue in clues.items() if clue and clue.is_own), failed)
    status, killed, clue = cluster.agents[task].poll(), cluster.killed_by(task), clues[task]
    how = f"killed by {signal_name(killed)}" if killed else f"exit status {status}"
    why = clue.message.strip() if clue else ""
    who = f"{task}: " if len(cluster.agents) > 1 else ""
    is_short = killed == signal.SIGKILL or (clue is not None and clue.kind == OUT_OF_MEMORY)
    if not _lines(cluster, task):
        lines = cluster.agent_log(task).splitlines()
        why = next(
            (line.partition(_ERROR)[2] for line in reversed(lines) if _ERROR in line), lines[-1] if lines else ""
        )
    return f"{who}{how}{': ' if why else ''}{why}", is_short


def _clue(cluster: LocalCluster, task: Task) -> Clue | None:
    killed = cluster.killed_by(task)
    return find_clue(_lines(cluster, task), cluster.agents[task].poll() if killed is None else None, killed)


def _lines(cluster: LocalCluster, task: Task) -> list[str]:
    log = cluster.task_log(task).decode(errors="replace")
    return [line for line in log.splitlines() if not line.startswith(OWN)]


def _untaken(trial: Trial, cluster: LocalCluster, failure: str) -> str:
    """Return why a run tells nothing of its setting: one from outside did not take hold, or the run failed.

    Args:
        trial: what was run.
        cluster: its tasks.
        failure: reason of a run that failed; empty where it did not.
    """
    log = b"".join(map(cluster.task_log, cluster.agents)).decode(errors="replace")
    for name in trial.outside:
        if OVERRULED + name in log:
            return f"{name}: not set from outside, since the script or its Keras gives it"
        if TAKEN + name not in log and not failure:
            return f"{name}: not set from outside, since nothing in the script takes it"
        if TAKEN + name not in log and name == "strategy":
            return f"{name}: not set from outside, since only models that Keras's fit trains take it ({failure})"
    return failure
