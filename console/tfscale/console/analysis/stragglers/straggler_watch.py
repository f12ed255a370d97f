"""Stragglers among subjects that meet in a collective, decided over blocks and described by steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from tfscale.console.analysis.steps.aligned_steps import AlignedSteps
from tfscale.console.analysis.steps.blocks import Blocks
from tfscale.console.analysis.stragglers.imbalance import ImbalanceWatch
from tfscale.console.analysis.stragglers.input_cost import AT_MOST, as_known, is_bound
from tfscale.console.analysis.stragglers.named_stragglers import NamedStragglers, ReportedStraggler
from tfscale.console.analysis.stragglers.straggler_figures import straggler_figures
from tfscale.console.analysis.stragglers.straggler_rule import (
    LENGTHS,
    Rule,
    ShortHistory,
    Verdict,
    severity_of,
    short_history,
)
from tfscale.console.analysis.stragglers.straggler_words import (
    begin_of,
    evidence_of,
    slower_than_peers,
    together,
    what_is_lost,
)
from tfscale.core.records.diagnosis import Diagnosis

_FAR_LESS = 1.25
"""Factor by which what a straggler is known to cost is less than its own steps show, from which on its cost decides how
severe it is (chosen)."""

StepsSince = Callable[[float], AlignedSteps]
"""Function of a time in Unix seconds: the kept steps that ended after it."""


AnyBlocks = TypeVar("AnyBlocks", bound=Blocks)


@dataclass(slots=True)
class SubjectWatch(Generic[AnyBlocks]):
    """History of one set of subjects that do equal work, and the stragglers among them."""

    rule: Rule = field(default_factory=Rule)
    named: NamedStragglers = field(init=False)
    """The open stragglers."""
    _blocks: AnyBlocks | None = None

    def __post_init__(self) -> None:
        self.named = NamedStragglers(self.rule)

    @property
    def short_history(self) -> ShortHistory | None:
        """The history of two subjects or more, while it is too short to name anybody."""
        return short_history(self._blocks)

    def _kept(self, subjects: tuple[str, ...]) -> AnyBlocks | None:
        """Keep the history of these subjects, and return it; None if it does not fit them, and begins anew."""
        if self._blocks is not None and not _keep_only(self._blocks, subjects, self.rule):
            self._blocks = None
        return self._blocks


@dataclass(slots=True)
class StragglerWatch(SubjectWatch[Blocks]):
    """Watch of subjects that meet in a collective, and of an imbalance among them."""

    _imbalance: ImbalanceWatch = field(default_factory=ImbalanceWatch)

    def restart(self, subjects: set[str]) -> None:
        """Forget the history, and the stragglers among `subjects`: a new attempt of these began, or they ended."""
        self.named.drop(subjects)
        self._blocks, self._imbalance = None, ImbalanceWatch()

    def follow(self, subjects: tuple[str, ...]) -> int:
        """Watch these subjects from now on.

        Returns the sequence of the newest step of theirs that is known; -1 where the history has to begin anew.
        """
        blocks = self._kept(subjects)
        return -1 if blocks is None else blocks.consumed

    def diagnose(self, fresh: AlignedSteps, steps_since: StepsSince) -> list[Diagnosis]:
        """Return the open stragglers, else an imbalance that no subject can be blamed for.

        `fresh` holds at least the steps after the one that `follow` returns; `steps_since` finds older steps again.
        """
        subjects, self.named.suspect = fresh.subjects, None
        self.follow(subjects)
        if len(subjects) >= 2:
            if self._blocks is None:
                self._blocks = Blocks(subjects, self.rule.window(len(subjects)))
            self._blocks.append_steps(fresh)
            if len(self._blocks) >= LENGTHS[0]:
                self._judge(self._blocks, steps_since)
        imbalance = self._imbalance.diagnosis
        return [*self.named.diagnoses, imbalance] if imbalance else self.named.diagnoses

    def _judge(self, blocks: Blocks, steps_since: StepsSince) -> None:
        self.named.judge(blocks, lambda verdicts: report(blocks.subjects, verdicts, steps_since(begin_of(verdicts))))
        if self.named:
            self._imbalance.interrupt(float(blocks.end[-1]))
        else:
            self._imbalance.judge(blocks, steps_since)


def _keep_only(blocks: Blocks, subjects: tuple[str, ...], rule: Rule) -> bool:
    """Keep only `subjects`. Returns False if the history of the blocks does not fit them and must begin anew."""
    gone = set(blocks.subjects) - set(subjects)
    remaining = tuple(subject for subject in blocks.subjects if subject not in gone)
    if remaining != subjects or (gone and len(remaining) < 2):
        return False
    if rule.window(len(remaining)) != rule.window(len(blocks.subjects)):
        return False
    if gone:
        blocks.forget(gone)
    return True


def report(subjects: tuple[str, ...], verdicts: Sequence[Verdict], steps: AlignedSteps) -> list[ReportedStraggler]:
    """Measure the stragglers together over these steps, and describe all; empty where there are no steps."""
    if not len(steps):
        return []
    figures = straggler_figures(steps, [verdict.column for verdict in verdicts])
    measured = [as_known(verdict, verdicts, each) for verdict, each in zip(verdicts, figures, strict=True)]
    bound = [is_bound(verdict, each) for verdict, each in zip(verdicts, measured, strict=True)]
    lost = what_is_lost(measured, any(bound)) + (
        ": how fast the others' data can come is not known" if any(bound) else ""
    )
    sentence = f"{slower_than_peers(subjects, verdicts, measured)}. {lost[0].upper()}{lost[1:]}."
    names, reported = together(subjects, verdicts), []
    for verdict, each, alone, is_bounded, evidence in zip(
        verdicts, measured, figures, bound, evidence_of(subjects, verdicts, measured), strict=True
    ):
        costs_less = _FAR_LESS * each.slowdown < alone.slowdown
        severity = "warning" if is_bounded else severity_of(each.slowdown if costs_less else each.ratio)
        evidence |= {"cost_is": AT_MOST} if is_bounded else {}
        name = subjects[verdict.column]
        diagnosis = Diagnosis("straggler", name, verdict.begin, None, severity, sentence, evidence, names)
        reported.append(ReportedStraggler(diagnosis, each))
    return reported
