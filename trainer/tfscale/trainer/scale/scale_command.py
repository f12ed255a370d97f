"""`tfscale-train scale`: a program or a script with several numbers of workers, and what follows from it."""

from __future__ import annotations

import argparse
import contextlib
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tfscale.core.comparison.rounds import order
from tfscale.core.errors import TfscaleError, UsageError
from tfscale.core.plots.plot_flags import HERE, draw
from tfscale.core.settings.exit_status import ExitStatus
from tfscale.core.text import elapsed, plural
from tfscale.core.working_folder import check_working_folder
from tfscale.trainer.compare.kept_runs import KeptRuns, read_runs, runs_in
from tfscale.trainer.compare.measured_run import MeasuredRun
from tfscale.trainer.compare.run_trial import Limits, OutOfTime, run_trial, time_is_over
from tfscale.trainer.compare.trials import Read
from tfscale.trainer.launch.local_cluster import interrupt_on_signals
from tfscale.trainer.launch.shaped_links import check_links, parse_link
from tfscale.trainer.saving.whole_files import reason, write_text
from tfscale.trainer.scale.measured_sizes import MeasuredSizes
from tfscale.trainer.scale.proposal_page import write_proposal
from tfscale.trainer.scale.scale_flags import FOLDER, check_verb
from tfscale.trainer.scale.scaling_plan import (
    FILE,
    ScalingPlan,
    check_files,
    plan_of,
    read_plan,
    trials_of,
    write_plan,
)
from tfscale.trainer.scale.scaling_report import as_json, contention_table, sentences, table, unplanned, where
from tfscale.trainer.scale.sizes_chart import sizes_chart

_BUDGET = 1800.0
_PATIENCE = 300.0


def scale(verb: str, flags: argparse.Namespace, run_words: Sequence[str], command: Sequence[str], read: Read) -> int:
    """Do one verb, or all, and return the exit status. Raises TfscaleError.

    Args:
        verb: `plan`, `run`, `report`, or empty for all of them.
        flags: of this command.
        run_words: further flags, for `tfscale-train run`.
        command: of a script.
        read: reads a command line of `run`.
    """
    check_working_folder()
    plan = request(verb, flags, run_words, command, read)
    folder = flags.folder or FOLDER
    if plan is None:
        plan = read_plan(folder)
    else:
        if not verb:
            _check_here(plan)
        write_plan(plan, folder)
    if verb == "plan":
        print("\n".join(_planned(plan, folder)))
        return ExitStatus.WELL
    if verb == "report":
        return _report(plan, folder, flags)
    sizes = [_size(flags.program, plan, folder)] if verb else list(plan.sizes)
    status = _measure(plan, sizes, folder, flags, read)
    return status if verb or status == ExitStatus.INTERRUPTED else _report(plan, folder, flags)


def request(
    verb: str, flags: argparse.Namespace, run_words: Sequence[str], command: Sequence[str], read: Read
) -> ScalingPlan | None:
    """Return the plan of a command line, None for a verb that reads one. Raises UsageError."""
    check_verb(verb, flags, run_words, command)
    return plan_of(flags, run_words, command, read) if verb in ("", "plan") else None


def _check_here(plan: ScalingPlan) -> None:
    """Check that runs can be made from here, before anything is written. Raises UsageError."""
    if plan.link:
        check_links(parse_link(plan.link))
    if plan.launcher and shutil.which(plan.launcher[0]) is None:
        raise UsageError(f"--launcher {plan.launcher[0]}: there is no such command")


def _planned(plan: ScalingPlan, folder: Path) -> Iterator[str]:
    own = "" if folder == FOLDER else f" --folder {folder}"
    placed = f"{plan.workers} workers, " if plan.workers else ""
    yield f"{folder / FILE}: {plan.kind} scaling, {placed}{plural(plan.runs, 'run')} a size, {where(plan)}"
    yield from (f"tfscale-train scale run {size}{own}" for size in plan.sizes)
    yield f"tfscale-train scale report{own}"


def _size(word: str | None, plan: ScalingPlan, folder: Path) -> int:
    """Return the size of `run SIZE`. Raises UsageError."""
    if word is None or word not in map(str, plan.sizes):
        known = ", ".join(map(str, plan.sizes))
        raise UsageError(f"scale run {word or 'SIZE'}: {folder / FILE} has the sizes {known}")
    return int(word)


def _path(folder: Path, size: int) -> Path:
    """Return the file of a size's runs: one for each, since jobs may write at the same time."""
    return folder / f"size-{size}.jsonl"


def _measure(plan: ScalingPlan, sizes: Sequence[int], folder: Path, flags: argparse.Namespace, read: Read) -> int:
    """Make the runs that are not there yet, and return the exit status."""
    interrupt_on_signals()
    check_files(plan)
    _check_here(plan)
    budget = flags.budget or _BUDGET
    # A program of tfscale-train ends by itself after its steps.
    steps = plan.steps if plan.program is None else None
    limits = Limits(steps, time.monotonic() + budget, flags.patience or _PATIENCE)
    with contextlib.ExitStack() as stack:
        kept = {size: stack.enter_context(runs_in(_path(folder, size))) for size in sizes}
        there = sum(not run.reason for each in kept.values() for run in each.runs)
        before = {size: len(each.runs) for size, each in kept.items()}
        goes_on = f"; goes on after {plural(there, 'run')} of an earlier call" if there else ""
        names = ", ".join(map(str, sizes))
        placed = f"{plan.workers} workers on {names} hosts" if plan.workers else f"{names} workers"
        told = f"{placed}, {plural(plan.runs, 'run')} each, at most {elapsed(budget)} (--budget){goes_on}"
        print(told, file=sys.stderr, flush=True)
        try:
            dead = _make_runs(plan, kept, limits, read)
        except _OtherKind as found:
            print(f"tfscale-train: {found}", file=sys.stderr)
            return ExitStatus.USAGE
        except OutOfTime:
            new = [run for size, each in kept.items() for run in each.runs[before[size] :]]
            print(time_is_over(new, _longest(kept), budget), file=sys.stderr)
            return ExitStatus.NOT_YET
        except KeyboardInterrupt:
            made = sum(not run.reason for each in kept.values() for run in each.runs)
            print(f"tfscale-train: interrupted; the same command goes on after {plural(made, 'run')}", file=sys.stderr)
            return ExitStatus.INTERRUPTED
    return ExitStatus.NOTHING if dead else ExitStatus.WELL


class _OtherKind(Exception):
    """The runs scale in another way than was planned, as further ones would."""


def _make_runs(plan: ScalingPlan, kept: dict[int, KeptRuns], limits: Limits, read: Read) -> set[int]:
    """Make the runs in turns, and return the sizes that failed.

    Raises _OtherKind, OutOfTime, OSError and TfscaleError.
    """
    trials, sizes, dead = trials_of(plan, read), list(kept), set[int]()
    for number in range(plan.runs):
        for place in order(len(sizes), number):
            size = sizes[place]
            is_there = any(run.round == number and not run.reason for run in kept[size].runs)
            if is_there or size in dead:
                continue
            _check_kind(plan, kept)
            limits.check_room(_longest(kept))
            shared = kept[size].path.parent.absolute() if plan.launcher else None
            run = run_trial(trials[size], number, limits, shared)
            kept[size].add(run)
            told = f"run {number + 1}, {plural(size, plan.noun)}: {run.in_words()}; {limits.left} left"
            print(told, file=sys.stderr, flush=True)
            if run.reason:
                dead.add(size)
    _check_kind(plan, kept)
    return dead


def _longest(kept: Mapping[int, KeptRuns]) -> float:
    """Return the wall time of the longest run, 0 without any."""
    return max((run.wall for each in kept.values() for run in each.runs), default=0.0)


def _check_kind(plan: ScalingPlan, kept: Mapping[int, KeptRuns]) -> None:
    """Check that the runs scale as planned, as far as is known. Raises _OtherKind."""
    for said in unplanned(MeasuredSizes(plan, {size: each.runs for size, each in kept.items()})):
        raise _OtherKind(said)


def _report(plan: ScalingPlan, folder: Path, flags: argparse.Namespace) -> int:
    """Print the report, write the files, and return the exit status."""
    paths = {size: _path(folder, size) for size in plan.sizes}
    # The newest run of a number counts: one that failed before may have been made again.
    runs = {size: _newest(read_runs(path)[0]) for size, path in paths.items() if path.exists()}
    sizes = MeasuredSizes(plan, runs)
    print(table(sizes), "", *sentences(sizes), sep="\n", flush=True)
    if beside := contention_table(sizes):
        print("", beside, sep="\n", flush=True)
    if flags.json is not None:
        try:
            write_text(flags.json, as_json(sizes))
        except OSError as error:
            raise TfscaleError(f"{flags.json}: {reason(error)}") from None
    if flags.proposal is not None and sizes.measured:
        write_proposal(sizes, flags.proposal, flags.plot_theme)
    if sizes.measured:
        if flags.plot == HERE:
            print()
        draw(sizes_chart(sizes), flags.plot, flags.plot_theme)
    elif flags.plot is not None or flags.proposal is not None:
        print("no size is measured: there is nothing to show", file=sys.stderr)
    return _status(sizes)


def _newest(runs: Sequence[MeasuredRun]) -> list[MeasuredRun]:
    return list({run.round: run for run in runs}.values())


def _status(sizes: MeasuredSizes) -> int:
    if sizes.other_kind or sizes.is_apart:
        return ExitStatus.USAGE
    if sizes.says_nothing:
        return ExitStatus.SHARED
    if sizes.failed:
        return ExitStatus.NOTHING
    return ExitStatus.NOT_YET if sizes.missing else ExitStatus.WELL
