"""Stragglers among subjects that meet in a collective, decided over blocks and described by steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from tfscale.console.analysis.observed.observed_task import WARM_UP_STEPS
from tfscale.console.analysis.steps.aligned_steps import AlignedSteps
from tfscale.console.analysis.steps.blocks import Blocks
from tfscale.console.analysis.stragglers.imbalance import ImbalanceWatch
from tfscale.console.analysis.stragglers.late_data import KnownCost, known_cost
from tfscale.console.analysis.stragglers.named_stragglers import NamedStragglers, ReportedStraggler
from tfscale.console.analysis.stragglers.straggler_figures import StragglerFigures, straggler_figures
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
"""Factor between a straggler's known cost and its own steps' from which on the cost decides its severity: with a
smaller one, both give the same severity or neighbouring ones."""

StepsSince = Callable[[float], AlignedSteps]
"""Function of a time in Unix seconds: the kept steps that ended after the time."""


AnyBlocks = TypeVar("AnyBlocks", bound=Blocks)


@dataclass(slots=True)
class SubjectWatch(Generic[AnyBlocks]):
    """History of one set of subjects with equal work, and the stragglers among them."""

    rule: Rule = field(default_factory=Rule)
    named: NamedStragglers = field(init=False)
    """The open stragglers."""
    _blocks: AnyBlocks | None = None

    def __post_init__(self) -> None:
        self.named = NamedStragglers(self.rule)

    @property
    def short_history(self) -> ShortHistory | None:
        """History of two subjects or more, while it is too short to name anybody."""
        return short_history(self._blocks)

    def _kept(self, subjects: tuple[str, ...]) -> AnyBlocks | None:
        """Return the history with these subjects only; None if it does not fit them, and begins anew."""
        if self._blocks is not None and not _keep_only(self._blocks, subjects, self.rule):
            self._blocks = None
        return self._blocks


@dataclass(slots=True)
class StragglerWatch(SubjectWatch[Blocks]):
    """Watch of subjects that meet in a collective, and of an imbalance among them."""

    input_python: Mapping[str, float] = field(default_factory=dict)
    """Seconds a step of the Python in a subject's input, by subject, where known."""
    _imbalance: ImbalanceWatch = field(default_factory=ImbalanceWatch)

    def restart(self, subjects: set[str]) -> None:
        """Forget the history, and the stragglers among `subjects`, which began a new attempt or ended."""
        self.named.drop(subjects)
        self._blocks, self._imbalance = None, ImbalanceWatch()

    def follow(self, subjects: tuple[str, ...]) -> int:
        """Watch these subjects from now on.

        Returns the sequence of the newest step of theirs that is known; -1 where the history has to begin anew.
        """
        blocks = self._kept(subjects)
        return -1 if blocks is None else blocks.consumed

    def diagnose(self, fresh: AlignedSteps, steps_since: StepsSince) -> list[Diagnosis]:
        """Return the open stragglers, else an imbalance that is no single subject's.

        `fresh` holds at least the steps after the one that `follow` returns; `steps_since` finds older steps again.
        """
        subjects, self.named.suspect, self.named.late = fresh.subjects, None, ()
        self.follow(subjects)
        if len(subjects) >= 2:
            if self._blocks is None:
                is_cut = len(fresh) and fresh.sequence[0] > WARM_UP_STEPS
                self._blocks = Blocks(subjects, self.rule.window(len(subjects)), subjects if is_cut else ())
            self._blocks.append(fresh)
            if len(self._blocks) >= LENGTHS[0]:
                self._judge(self._blocks, steps_since)
        imbalance = self._imbalance.diagnosis
        return [*self.named.diagnoses, imbalance] if imbalance else self.named.diagnoses

    def _judge(self, blocks: Blocks, steps_since: StepsSince) -> None:
        self.named.judge(
            blocks, lambda verdicts: self._report(blocks.subjects, verdicts, steps_since(begin_of(verdicts)))
        )
        if self.named or self.named.late:
            self._imbalance.interrupt(float(blocks.end[-1]))
        else:
            self._imbalance.judge(blocks, steps_since)

    def _report(
        self, subjects: tuple[str, ...], verdicts: Sequence[Verdict], steps: AlignedSteps
    ) -> list[ReportedStraggler]:
        """Measure the stragglers together over these steps, and describe all; empty where there are no steps."""
        if not len(steps):
            return []
        figures = straggler_figures(steps, [verdict.column for verdict in verdicts])
        costs = self._known_costs(subjects, verdicts, figures)
        measured = [cost.figures for cost in costs]
        lost = what_is_lost(measured)
        sentence = f"{slower_than_peers(subjects, verdicts, measured)}. {lost[0].upper()}{lost[1:]}."
        names, reported = together(subjects, verdicts), []
        for verdict, cost, alone, evidence in zip(
            verdicts, costs, figures, evidence_of(subjects, verdicts, measured), strict=True
        ):
            known = cost.figures
            severity = severity_of(known.slowdown if _FAR_LESS * known.slowdown < alone.slowdown else known.ratio)
            name = subjects[verdict.column]
            diagnosis = Diagnosis(
                "straggler", name, verdict.begin, None, severity, sentence, evidence=evidence, together=names
            )
            reported.append(ReportedStraggler(diagnosis, known, cost.is_alone))
        return reported

    def _known_costs(
        self, subjects: tuple[str, ...], verdicts: Sequence[Verdict], figures: Sequence[StragglerFigures]
    ) -> list[KnownCost]:
        python = [self.input_python.get(name) for name in subjects]
        slow = {verdict.column for verdict in verdicts}
        peers = [seconds for column, seconds in enumerate(python) if column not in slow]
        return [
            known_cost(verdict, verdicts, each, own=python[verdict.column], peers=peers, rule=self.rule)
            for verdict, each in zip(verdicts, figures, strict=True)
        ]


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
