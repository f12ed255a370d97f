"""Stragglers as they are reported: a subject stays named until it is clearly no slower than its peers."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tfscale.console.analysis.steps.blocks import Blocks
from tfscale.console.analysis.stragglers.partly_slow import partly_slow
from tfscale.console.analysis.stragglers.straggler_figures import StragglerFigures
from tfscale.console.analysis.stragglers.straggler_rule import (
    Rule,
    Suspect,
    Verdict,
    judge,
    longest_burst,
    recovery,
    suspect,
)
from tfscale.core.records.diagnosis import Diagnosis


@dataclass(frozen=True, slots=True)
class ReportedStraggler:
    """A straggler's diagnosis, and the figures behind all its numbers."""

    diagnosis: Diagnosis
    figures: StragglerFigures
    is_alone: bool = True
    """False where its data come late, and nothing shows that the others' would come earlier: then it is not named."""


Report = Callable[[Sequence[Verdict]], Sequence[ReportedStraggler]]
"""Function that measures and describes the stragglers of these verdicts together; empty where no steps are left."""


@dataclass(frozen=True, slots=True)
class _Named:
    verdict: Verdict
    """Verdict that named the straggler; its window decides about the end where noise hides the recovery."""
    reported: ReportedStraggler


@dataclass(slots=True)
class NamedStragglers:
    """The open stragglers of one set of subjects: adds hysteresis to the rule."""

    rule: Rule
    recovered: dict[str, float] = field(default_factory=dict)
    """Unix seconds since which each straggler that has just ended is as fast as its peers."""
    suspect: Suspect | None = None
    """The subject that looks slow while no straggler is named."""
    late: tuple[str, ...] = ()
    """Subjects whose data come last, but which are not named, because the others' input may be as slow."""
    resumed: float = -math.inf
    """End of the newest standstill, Unix seconds: an older straggler is measured anew since then."""
    _named: dict[str, _Named] = field(default_factory=dict)

    def __iter__(self) -> Iterator[str]:
        return iter(self._named)

    def __len__(self) -> int:
        return len(self._named)

    @property
    def diagnoses(self) -> list[Diagnosis]:
        return [named.reported.diagnosis for named in self._named.values()]

    @property
    def figures(self) -> dict[str, StragglerFigures]:
        """The figures of each diagnosis, by subject."""
        return {subject: named.reported.figures for subject, named in self._named.items()}

    @property
    def slowdown(self) -> float:
        """Ratio of the step time to the step time without the open stragglers; 1 where there are none."""
        return max((figures.slowdown for figures in self.figures.values()), default=1.0)

    def drop(self, subjects: set[str]) -> None:
        """Forget these subjects, and the suspect."""
        self.suspect, self.late = None, ()
        self._named = {name: named for name, named in self._named.items() if name not in subjects}

    def judge(self, blocks: Blocks, report: Report) -> None:
        """Judge the blocks, and `report` all stragglers anew, over the steps since the newest onset.

        A subject is not named while those steps contradict the blocks: work that moves from worker to worker with the
        period of a block looks as if one worker were slow.
        """
        self._end_recovered(blocks)
        slow = judge(blocks, self.rule)
        slow += partly_slow(blocks, self.rule, [verdict.column for verdict in slow])
        fresh = {blocks.subjects[verdict.column]: verdict for verdict in slow}
        fresh = {subject: verdict for subject, verdict in fresh.items() if subject not in self._named}
        reported = self._reported(blocks, fresh, report)
        shown = {
            name: verdict for name, verdict in fresh.items() if name in reported and self._is_shown(reported[name])
        }
        self.late = tuple(name for name in fresh if name in reported and not reported[name].is_alone)
        if len(shown) < len(fresh):
            reported = self._reported(blocks, shown, report)
        hidden = {name for name, straggler in reported.items() if name not in shown and not self._is_slower(straggler)}
        if hidden:
            # Until it has recovered it stays as it was: in a phase in which it is no slower nothing is to be found.
            reported = self._reported(blocks, shown, report, hidden)
        verdicts = {name: named.verdict for name, named in self._named.items()} | shown
        self._named |= {name: _Named(verdicts[name], straggler) for name, straggler in reported.items()}
        self.suspect = None if self._named else self._suspect(blocks, report)

    def _suspect(self, blocks: Blocks, report: Report) -> Suspect | None:
        if (verdict := suspect(blocks, self.rule)) is None:
            return None
        is_shown = any(map(self._is_shown, report([verdict])))
        since = self._since_resumed(verdict, float(blocks.end[-1])).begin
        return Suspect(blocks.subjects[verdict.column], since) if is_shown else None

    def _is_shown(self, straggler: ReportedStraggler) -> bool:
        return straggler.is_alone and self._is_slower(straggler)

    def _is_slower(self, straggler: ReportedStraggler) -> bool:
        return straggler.figures.ratio >= self.rule.off

    def _reported(
        self, blocks: Blocks, fresh: Mapping[str, Verdict], report: Report, hidden: Collection[str] = ()
    ) -> dict[str, ReportedStraggler]:
        verdicts = {name: named.verdict for name, named in self._named.items()} | dict(fresh)
        columns = {subject: column for column, subject in enumerate(blocks.subjects) if subject not in hidden}
        now = float(blocks.end[-1])
        present = [
            replace(self._since_resumed(verdict, now), column=columns[name])
            for name, verdict in verdicts.items()
            if name in columns
        ]
        present.sort(key=lambda verdict: verdict.column)
        if not present:
            return {}
        return {straggler.diagnosis.subject: straggler for straggler in report(present)}

    def _since_resumed(self, verdict: Verdict, now: float) -> Verdict:
        """Return the verdict with the steps after the newest standstill alone, which is no slowness."""
        # A time after `now` is from before the clock was set back.
        is_before = verdict.begin < self.resumed <= now
        return replace(verdict, begin=self.resumed, began_earlier=False) if is_before else verdict

    def _end_recovered(self, blocks: Blocks) -> None:
        self.recovered = {}
        for subject, named in self._named.items():
            if subject in blocks.subjects:
                column, verdict = blocks.subjects.index(subject), named.verdict
                since = recovery(blocks, column, verdict.begin, verdict.length, self.rule, verdict.in_part)
                if since is not None:
                    self.recovered[subject] = since
                    blocks.take_out(column, verdict.begin, since, longest_burst(blocks))
        self.drop(set(self.recovered))
