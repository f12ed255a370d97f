"""Comparison: rounds of runs until each setting is decided, or the time is over."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, variance

from tfscale.core.comparison.judgement import Judgement, Verdict
from tfscale.core.comparison.rounds import Rounds, order
from tfscale.trainer.compare.kept_runs import KeptRuns
from tfscale.trainer.compare.measured_run import MeasuredRun, loss_at
from tfscale.trainer.compare.run_trial import Limits, OutOfTime, run_trial
from tfscale.trainer.compare.trials import Trial

LOSS_MARGIN = 0.02
"""Difference of the loss at equal examples from which a setting trains something else."""


@dataclass(frozen=True, slots=True)
class Row:
    """All that is known of one setting."""

    trial: Trial
    runs: Sequence[MeasuredRun]
    judgement: Judgement | None
    """Change of the mean time of an example against the base; None for the base, and before the first look."""
    quick: Judgement | None
    """The same by quick steps."""
    loss: float | None
    """Mean of its runs, at the number of examples that all settings have reached."""
    is_other_training: bool
    """True where the loss differs by more than LOSS_MARGIN from that of the base, and by more than equal runs do."""

    @property
    def reason(self) -> str:
        """Reason for which a run was not measured; empty without one."""
        return next((run.reason for run in self.runs if run.reason), "")

    @property
    def measured(self) -> list[MeasuredRun]:
        return [run for run in self.runs if not run.reason]

    @property
    def may_win(self) -> bool:
        return bool(self.measured) and not self.reason and not self.is_other_training


class Comparison:
    """Settings that are compared to the first of them, and their runs."""

    def __init__(self, trials: Sequence[Trial], rounds: Rounds, kept: KeptRuns) -> None:
        self.trials, self.rounds, self._kept = trials, rounds, kept
        self._is_over = False
        self.is_cut = False
        """True where the time was over before all was decided."""

    def run(self, limits: Limits, progress: Callable[[MeasuredRun], None]) -> None:
        """Make rounds until every setting is decided or the time is over. Raises OSError and TfscaleError."""
        try:
            for number in range(self.rounds.most):
                taking_part = self._undecided(number)
                if len(taking_part) < 2 or taking_part[0] is not self.trials[0]:
                    break
                for place in order(len(taking_part), number):
                    self._run(taking_part[place], number, limits, progress)
        except OutOfTime:
            self.is_cut = True
        self._is_over = True

    def _run(self, trial: Trial, number: int, limits: Limits, progress: Callable[[MeasuredRun], None]) -> None:
        """Make a run unless it is there already. Raises OutOfTime."""
        is_there = any((run.setting, run.round) == (trial.name, number) for run in self._kept.runs)
        if is_there or self._dead & {trial.name, self.trials[0].name}:
            return
        if not trial.refused:
            limits.check_room(self._expected(trial))
        run = run_trial(trial, number, limits)
        self._kept.add(run)
        progress(run)

    def _expected(self, trial: Trial) -> float:
        """Return the longest wall time of a setting's runs, of all runs where it has none."""
        return max(
            (run.wall for run in self._kept.runs if run.setting == trial.name),
            default=max((run.wall for run in self._kept.runs), default=0.0),
        )

    @property
    def _dead(self) -> set[str]:
        return {run.setting for run in self._kept.runs if run.reason}

    def _undecided(self, number: int) -> list[Trial]:
        """Return the settings that take part in a round, the base first: those that no look before has decided."""
        found = []
        for trial in self.trials:
            judged = self._judged(trial, number, is_last=False)
            if trial.name not in self._dead and (judged is None or judged.verdict is Verdict.UNDECIDED):
                found.append(trial)
        return found

    def _judged(self, trial: Trial, until: int, is_last: bool, is_quick: bool = False) -> Judgement | None:
        """Judge a setting by the rounds before this one; None for the base, and before the first look."""
        if trial is self.trials[0]:
            return None
        base, other = self._times(self.trials[0], until, is_quick), self._times(trial, until, is_quick)
        both = sorted(base.keys() & other.keys())
        return self.rounds.judge([base[each] for each in both], [other[each] for each in both], is_last)

    def _times(self, trial: Trial, until: int, is_quick: bool) -> dict[int, float]:
        """Return the time of an example by round; of a step, where one of the settings does not tell its examples."""
        knows = all(run.examples for run in self._kept.runs if not run.reason)
        runs = {run.round: run for run in self._kept.runs if run.setting == trial.name and run.round < until}
        steps = {number: run.quick if is_quick else run.step for number, run in runs.items() if not run.reason}
        share = {number: (runs[number].examples or 1) if knows else 1 for number in steps}
        return {number: step / share[number] for number, step in steps.items() if step}

    def noise(self, only: Trial | None = None) -> float | None:
        """Return the standard deviation of the logarithms of a setting's runs, without what a round shares.

        Args:
            only: setting whose runs count, beside those of the base; None: all.
        """
        base, spread = self._times(self.trials[0], self.rounds.most, is_quick=False), []
        for trial in self.trials[1:] if only is None else [only]:
            other = self._times(trial, self.rounds.most, is_quick=False)
            ratios = [math.log(other[each] / base[each]) for each in base.keys() & other.keys()]
            if len(ratios) > 1:
                spread.append(variance(ratios) / 2)
        return math.sqrt(fmean(spread)) if spread else None

    def rows(self) -> list[Row]:
        """Return all settings, the base first."""
        examples = self.equal_examples()
        losses = {trial.name: self._losses(trial, examples) for trial in self.trials}
        base = losses[self.trials[0].name]
        found = []
        for trial in self.trials:
            own, most = losses[trial.name], self.rounds.most
            runs = [run for run in self._kept.runs if run.setting == trial.name]
            judged, quick = (self._judged(trial, most, self._is_over, is_quick) for is_quick in (False, True))
            found.append(Row(trial, runs, judged, quick, fmean(own) if own else None, _differ(base, own)))
        return found

    def equal_examples(self) -> float:
        """Return the number of examples that every measured run with a loss has reached."""
        reached = [run.losses[-1][0] * (run.examples or 1) for run in self._kept.runs if run.losses]
        return min(reached, default=0)

    def _losses(self, trial: Trial, examples: float) -> list[float]:
        runs = [run for run in self._kept.runs if run.setting == trial.name and not run.reason]
        return [loss for run in runs if (loss := loss_at(run, examples)) is not None]


def _differ(base: Sequence[float], other: Sequence[float]) -> bool:
    """Decide whether the losses of two settings differ by more than the margin, and than runs of one setting do."""
    if not base or not other:
        return False
    spread = max(max(base) - min(base), max(other) - min(other))
    return abs(fmean(other) - fmean(base)) > max(LOSS_MARGIN * abs(fmean(base)), spread)
