"""`tfscale-train batch`: a program or a script in a new process for each size of its batch, until one is chosen."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from tfscale.core.comparison.program_files import files_of
from tfscale.core.errors import TfscaleError, UsageError
from tfscale.core.settings.exit_status import ExitStatus
from tfscale.core.text import elapsed, plural
from tfscale.core.working_folder import check_working_folder
from tfscale.trainer.batch.size_search import SizeRow, SizeSearch, with_head_room
from tfscale.trainer.batch.size_table import Found, as_csv, as_json, table
from tfscale.trainer.compare.axes import Axis, Setting
from tfscale.trainer.compare.kept_runs import KeptRuns, kept_runs
from tfscale.trainer.compare.measured_run import MeasuredRun
from tfscale.trainer.compare.result_file import machine_facts, write_file
from tfscale.trainer.compare.run_trial import Limits, OutOfTime, run_trial, time_is_over
from tfscale.trainer.compare.trials import (
    Read,
    Trial,
    check_steps,
    check_words,
    program_trials,
    script_trials,
)
from tfscale.trainer.launch.local_cluster import interrupt_on_signals

_HEAD_ROOM = "head-room "
_PLACES = ("workers", "servers")
"""Flags for the number of tasks."""
_OFF = 0.1
"""Difference of a step's examples from those that its size would make, as a share, from which it is another size."""


def batch(flags: argparse.Namespace, run_words: Sequence[str], command: Sequence[str], plan: Read) -> int:
    """Find a batch, and return the exit status. Raises TfscaleError.

    Args:
        flags: of this command.
        run_words: further flags, for `tfscale-train run`.
        command: of a script.
        plan: reads a command line of `run`.
    """
    check_working_folder()
    trial = trial_of(flags, run_words, command, plan)
    trial(flags.start)
    settings = [str(getattr(flags, name)) for name in ("start", "steps", "rate", *_PLACES, "program")]
    files = files_of([str(flags.program), *run_words, *command])
    with kept_runs(["batch", *settings, *run_words, "--", *command], files) as kept:
        return _find(flags, _Sizes(trial, flags, kept), kept)


def trial_of(
    flags: argparse.Namespace, run_words: Sequence[str], command: Sequence[str], plan: Read
) -> Callable[[int], Trial]:
    """Return what makes the trial of a size. Raises UsageError."""
    if flags.max is not None and flags.max < flags.start:
        raise UsageError(f"--max {flags.max}: is below the first size, --start {flags.start}")
    check_steps(flags.steps)
    check_words(flags.program, run_words, command)
    if flags.program is not None:
        return _program(flags, run_words, plan)
    if not any("{batch}" in word for word in command):
        raise UsageError("write {batch} where the command has its batch: -- python train.py --batch {batch}")
    if any("{rate}" in word for word in command) != (flags.rate is not None):
        raise UsageError("--rate R and {rate} in the command go together: --rate 0.01 -- python train.py --lr {rate}")

    def of_size(size: int) -> Trial:
        setting: Setting = {"batch": str(size), **_scaled(flags, size)}
        setting |= {name: str(value) for name in _PLACES if (value := getattr(flags, name)) is not None}
        return script_trials(command, [Axis(name, (value,)) for name, value in setting.items()], {"": setting})[0]

    return of_size


def _program(flags: argparse.Namespace, run_words: Sequence[str], plan: Read) -> Callable[[int], Trial]:
    given = {name: value for name in ("steps", *_PLACES) if (value := getattr(flags, name)) is not None}
    words = [*run_words, *(word for name, value in given.items() for word in (f"--{name}", str(value)))]

    def of_size(size: int) -> Trial:
        return program_trials(flags.program, words, {"": {"batch": str(size), **_scaled(flags, size)}}, plan)[0]

    return of_size


def _scaled(flags: argparse.Namespace, size: int) -> Setting:
    """Return the learning rate of a size, by linear scaling; nothing where none is given."""
    return {} if flags.rate is None else {"rate": f"{flags.rate * size / flags.start:.6g}"}


class _Sizes:
    """Runs of sizes, those that are kept of an earlier call or new ones."""

    def __init__(self, trial: Callable[[int], Trial], flags: argparse.Namespace, kept: KeptRuns) -> None:
        self._trial, self._flags, self._kept = trial, flags, kept
        # A program of tfscale-train ends by itself after its steps.
        steps = flags.steps if flags.program is None else None
        self._limits = Limits(steps, time.monotonic() + flags.budget, flags.patience)
        self.search = SizeSearch(self._row)
        self._first: MeasuredRun | None = None
        self._new: set[tuple[str, int]] = set()
        """Runs of this call, by setting and number."""

    def find(self) -> Found:
        """Search, and show the head-room of what is found. Raises OutOfTime, OSError and TfscaleError."""
        self.search.run(self._flags.start, self._flags.max)
        chosen, tried = self.search.chosen, []
        for row in reversed([row for row in self.search.rows if chosen and row.rate and row.size <= chosen.size]):
            size = with_head_room(row.size, row.runs[0].devices)
            tried.append(self._run(size, 0, _HEAD_ROOM))
            self._tell(tried[-1])
            if not tried[-1].reason:
                return Found(row, SizeRow(size, tried[-1:]))
        return Found(chosen, SizeRow(int(tried[0].setting.removeprefix(_HEAD_ROOM)), tried[:1]) if tried else None)

    def _row(self, size: int) -> SizeRow:
        runs: list[MeasuredRun] = []
        while len(runs) < self._flags.runs and not any(run.reason for run in runs):
            runs.append(self._run(size, len(runs)))
            self.search.add(SizeRow(size, runs))
            self._tell(runs[-1])
        return SizeRow(size, runs)

    def _run(self, size: int, number: int, name: str = "") -> MeasuredRun:
        """Make a run unless it is there already. Raises OutOfTime."""
        name = f"{name}{size}"
        kept = {(run.setting, run.round): run for run in self._kept.runs}
        run = kept.get((name, number))
        if run is None:
            self._limits.check_room(max((each.wall for each in kept.values()), default=0.0))
            run = self._checked(size, run_trial(replace(self._trial(size), name=name), number, self._limits))
            self._kept.add(run)
            self._new.add((name, number))
        self._first = self._first or (None if run.reason else run)
        return run

    def _checked(self, size: int, run: MeasuredRun) -> MeasuredRun:
        """Return the run, with a reason where its steps have not the examples that this size would make.

        Raises TfscaleError where they are the same as with another size.
        """
        if self._first is None or not self._first.examples or not run.examples:
            return run
        first = self._first.setting
        if run.examples == self._first.examples and size >= 2 * int(first):
            raise TfscaleError(
                f"a step has {run.examples:,} examples with batch {size} as with {first}: the command does not use "
                "{batch}, or has no more examples"
            )
        expected = self._first.examples * size / int(first)
        if abs(run.examples / expected - 1) <= _OFF:
            return run
        told = f"a step has {run.examples:,} examples; {expected:,.0f} by those of batch {first}"
        return replace(run, reason=f"{told}: the script does not take this size, or has no more examples")

    def _tell(self, run: MeasuredRun) -> None:
        """Tell a run of this call, the size to take so far and the time that is left."""
        if (run.setting, run.round) not in self._new:
            return
        said, left = run.in_words(has_memory=True), self._limits.left
        chosen = self.search.chosen
        best = f"; so far: batch {chosen.size}" if chosen else ""
        head, size = run.setting.startswith(_HEAD_ROOM), run.setting.removeprefix(_HEAD_ROOM)
        print(f"batch {size}{' (head-room)' if head else ''}: {said}{best}; {left} left", file=sys.stderr, flush=True)


def _find(flags: argparse.Namespace, sizes: _Sizes, kept: KeptRuns) -> int:
    interrupt_on_signals()
    before = len(kept.runs)
    goes_on = f"; goes on after {plural(len(kept.runs), 'run')} of an earlier call" if kept.runs else ""
    most = "" if flags.max is None else f" to {flags.max}"
    print(f"batch from {flags.start}{most}, at most {elapsed(flags.budget)} (--budget){goes_on}", file=sys.stderr)
    try:
        found = sizes.find()
    except KeyboardInterrupt:
        print(table(sizes.search, None, flags), flush=True)
        print(
            f"tfscale-train: interrupted; the same command goes on after {plural(len(kept.runs), 'run')}",
            file=sys.stderr,
        )
        return ExitStatus.INTERRUPTED
    except OutOfTime:
        found = None
    print(table(sizes.search, found, flags), flush=True)
    _write(flags, sizes.search, found)
    if found is None:
        longest = max((run.wall for run in kept.runs), default=0.0)
        print(time_is_over(kept.runs[before:], longest, flags.budget), file=sys.stderr)
        return ExitStatus.NOT_YET
    kept.forget()
    if found.chosen is None:
        return ExitStatus.NOTHING
    return ExitStatus.WELL if found.has_head_room else ExitStatus.NOT_YET


def _write(flags: argparse.Namespace, search: SizeSearch, found: Found | None) -> None:
    facts = {**machine_facts(), "start": flags.start, "rate": flags.rate}
    write_file(flags.json, as_json(search, found, facts))
    write_file(flags.csv, as_csv(search))
