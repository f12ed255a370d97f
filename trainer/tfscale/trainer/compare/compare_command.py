"""`tfscale-train compare`: a program or a script under several settings, run by run until each is decided."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from statistics import fmean

from tfscale.core.cluster.file.cluster_file import load_cluster
from tfscale.core.cluster.file.find_cluster import cluster_file
from tfscale.core.cluster.gpu_price import GpuPrice
from tfscale.core.comparison.judgement import Verdict
from tfscale.core.comparison.program_files import files_of
from tfscale.core.comparison.rounds import FEWEST, Rounds
from tfscale.core.errors import UsageError
from tfscale.core.plots.plot_flags import HERE, draw
from tfscale.core.settings.exit_status import ExitStatus
from tfscale.core.text import elapsed, plural
from tfscale.core.working_folder import check_working_folder
from tfscale.trainer.compare.axes import names_of, parse_axes, settings_of
from tfscale.trainer.compare.comparison import Comparison
from tfscale.trainer.compare.earlier_code import CODE, NOW, EarlierCode, earlier_code
from tfscale.trainer.compare.intervals_chart import intervals_chart
from tfscale.trainer.compare.kept_runs import KeptRuns, kept_runs
from tfscale.trainer.compare.measured_run import MeasuredRun
from tfscale.trainer.compare.result_file import machine_facts, write_file
from tfscale.trainer.compare.run_trial import Limits, time_is_over
from tfscale.trainer.compare.table import as_csv, as_json, best_lines, loss_lines, summary, table
from tfscale.trainer.compare.trials import (
    Read,
    Trial,
    check_steps,
    check_words,
    program_trials,
    script_trials,
)
from tfscale.trainer.launch.local_cluster import interrupt_on_signals


def compare(flags: argparse.Namespace, run_words: Sequence[str], command: Sequence[str], plan: Read) -> int:
    """Compare, and return the exit status. Raises TfscaleError.

    Args:
        flags: of this command.
        run_words: further flags, for `tfscale-train run`.
        command: of a script.
        plan: reads a command line of `run`.
    """
    check_working_folder()
    if flags.rounds < FEWEST:
        raise UsageError(f"--rounds {flags.rounds}: at least {FEWEST}, since fewer runs say nothing about the next")
    if flags.cost_per_hour is not None and flags.loss is None:
        raise UsageError("--cost-per-hour: give --loss L, the loss to which the cost is told")
    check_steps(flags.steps)
    price = _price(flags)
    with earlier_code(flags.against) as earlier:
        trials = trials_of(flags, run_words, command, plan, earlier)
        identity = [*flags.set, str(flags.steps), str(flags.program), *run_words, "--", *command]
        identity += [earlier.identity] if earlier else []
        files = files_of([str(flags.program), *run_words, *command])
        with kept_runs(identity, files) as kept:
            return _compare(flags, Comparison(trials, Rounds(flags.rounds, flags.margin), kept), kept, price)


def _price(flags: argparse.Namespace) -> GpuPrice | None:
    """Return the price of a device, for an hour; None where nothing tells it, or nothing asks for it.

    Raises ClusterError.
    """
    if flags.loss is None or flags.cost_per_hour is not None:
        return flags.cost_per_hour  # type: ignore[no-any-return]
    path = cluster_file(os.environ)
    return load_cluster(path).gpu_price if path else None


def trials_of(
    flags: argparse.Namespace,
    run_words: Sequence[str],
    command: Sequence[str],
    plan: Read,
    earlier: EarlierCode | None = None,
) -> list[Trial]:
    """Return what is compared. Raises UsageError."""
    axes = parse_axes([*([f"{CODE}={earlier.commit};{NOW}"] if earlier else []), *flags.set])
    combined = settings_of(axes)
    settings = dict(zip(names_of(combined, axes), combined, strict=True))
    check_words(flags.program, run_words, command)
    if earlier:
        return script_trials(earlier.placed(command), axes, settings, {CODE: earlier.folders})
    if flags.program is None:
        return script_trials(command, axes, settings)
    steps = [] if flags.steps is None else ["--steps", str(flags.steps)]
    return program_trials(flags.program, [*run_words, *steps], settings, plan)


def _compare(flags: argparse.Namespace, comparison: Comparison, kept: KeptRuns, price: GpuPrice | None) -> int:
    interrupt_on_signals()
    before = len(kept.runs)
    # A program of tfscale-train ends by itself after its steps.
    steps = flags.steps if flags.program is None else None
    limits = Limits(steps, time.monotonic() + flags.budget, flags.patience)
    told = _Told(comparison, limits)
    print(_announced(comparison, flags.budget, len(kept.runs)), file=sys.stderr, flush=True)
    try:
        comparison.run(limits, told.run)
    except KeyboardInterrupt:
        print(table(comparison, flags.loss), flush=True)
        print(
            f"tfscale-train: interrupted; the same command goes on after {plural(len(kept.runs), 'run')}",
            file=sys.stderr,
        )
        return ExitStatus.INTERRUPTED
    print(table(comparison, flags.loss), flush=True)
    if flags.loss is not None:
        print(*loss_lines(comparison, flags.loss, price), sep="\n", flush=True)
    _write(flags, comparison, price)
    status = _status(comparison)
    if comparison.is_cut and status != ExitStatus.WELL:
        longest = max((run.wall for run in kept.runs), default=0.0)
        print(time_is_over(kept.runs[before:], longest, flags.budget), file=sys.stderr)
    else:
        kept.forget()
    return status


def _announced(comparison: Comparison, budget: float, kept: int) -> str:
    count, rounds = len(comparison.trials), comparison.rounds
    goes_on = f"; goes on after {plural(kept, 'run')} of an earlier call" if kept else ""
    number = str(FEWEST) if rounds.most == FEWEST else f"{FEWEST} to {rounds.most}"
    return (
        f"{count} settings, {number} rounds, at most {elapsed(budget)} (--budget); "
        f"base: {comparison.trials[0].name}{goes_on}"
    )


class _Told:
    """Line about each run, with the best setting so far and the time that is left."""

    def __init__(self, comparison: Comparison, limits: Limits) -> None:
        self._comparison, self._limits = comparison, limits

    def run(self, run: MeasuredRun) -> None:
        """Tell a run."""
        words = f"round {run.round + 1}: {run.setting}: {run.in_words()}; {self._best()}; {self._limits.left} left"
        print(words, file=sys.stderr, flush=True)

    def _best(self) -> str:
        """Return the fastest setting so far, also where it is not judged yet."""
        rows = self._comparison.rows()
        if rows[0].reason:
            return "the base has failed"
        if any(row.judgement for row in rows):
            return best_lines(rows, [summary(row, None) for row in rows])[0]
        times = {
            row.trial.name: fmean(run.per_example(run.step) or 0.0 for run in row.measured)
            for row in rows
            if row.may_win
        }
        best = min(times, key=lambda name: times[name], default="none")
        others = " of those that train the same" if any(row.is_other_training for row in rows) else ""
        return f"best so far{others}: {best}, not judged yet"


def _write(flags: argparse.Namespace, comparison: Comparison, price: GpuPrice | None) -> None:
    equal = {"equal_examples": comparison.equal_examples()}
    facts = {"comparison": [*flags.set], **machine_facts(), **equal}
    if price is not None:
        facts["cost"] = price.document()
    write_file(flags.json, as_json(comparison, flags.loss, facts))
    write_file(flags.csv, as_csv(comparison, flags.loss))
    if flags.plot is not None:
        if flags.plot == HERE:
            print()
        draw(intervals_chart(comparison), flags.plot, flags.plot_theme)


def _status(comparison: Comparison) -> int:
    rows = comparison.rows()
    judged = [row.judgement for row in rows if row.judgement is not None and not row.reason]
    if rows[0].reason or not (judged or comparison.is_cut):
        return ExitStatus.NOTHING
    undecided = not judged or any(each.verdict is Verdict.UNDECIDED for each in judged)
    return ExitStatus.NOT_YET if undecided else ExitStatus.WELL
