"""Stragglers as they are reported: a subject stays named until it is clearly no slower than its peers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tfscale.core.analysis.steps.blocks import Blocks
from tfscale.core.analysis.stragglers.straggler_figures import StragglerFigures
from tfscale.core.analysis.stragglers.straggler_rule import Rule, Verdict, judge, persists
from tfscale.core.records import Diagnosis
from tfscale.core.text import clock, step_time, times

_NEWS = 0.1
"""Relative change of r from which on a straggler is reported with new figures (chosen: less is noise)."""

_SAYS_MUCH = 10.0
"""Factor over its peers' time in a phase up to which it is told; a larger one is of a phase that is nothing for them
(chosen)."""

_WORDS = {
    "compute": "compute takes",
    "input": "waiting for data takes",
    "host": "Python between steps takes",
    "update": "the update takes",
}


@dataclass(frozen=True, slots=True)
class ReportedStraggler:
    """A straggler's diagnosis, and the figures from which every number of it comes."""

    diagnosis: Diagnosis
    figures: StragglerFigures


@dataclass(frozen=True, slots=True)
class _Named:
    length: int
    """Blocks of the window that named it first: the same length decides when it ends."""
    ratio: float
    """The r of the rule when it was reported last."""
    reported: ReportedStraggler


@dataclass(slots=True)
class NamedStragglers:
    """The open stragglers of one set of subjects: adds hysteresis to the rule."""

    rule: Rule
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

    def drop(self, subjects: set[str]) -> None:
        """Forget these subjects."""
        self._named = {name: named for name, named in self._named.items() if name not in subjects}

    def judge(self, blocks: Blocks, report: Callable[[Verdict], ReportedStraggler | None]) -> None:
        """Judge the blocks, and call `report` for each verdict that is news.

        `report` returns None if no steps of the window are left. A subject is not named while the steps of the window
        contradict the blocks: work that moves from worker to worker can keep the beat of the blocks.
        """
        self._end_recovered(blocks)
        for verdict in judge(blocks, self.rule):
            subject = blocks.subjects[verdict.column]
            before = self._named.get(subject)
            if before is not None and abs(verdict.ratio / before.ratio - 1) <= _NEWS:
                continue
            reported = report(verdict)
            if reported is not None and (before or reported.figures.ratio >= self.rule.off):
                self._named[subject] = _Named(before.length if before else verdict.length, verdict.ratio, reported)

    def _end_recovered(self, blocks: Blocks) -> None:
        for subject, named in list(self._named.items()):
            is_judged = subject in blocks.subjects
            if is_judged and not persists(blocks, blocks.subjects.index(subject), named.length, self.rule):
                del self._named[subject]


def slower_than_peers(subjects: tuple[str, ...], verdict: Verdict, figures: StragglerFigures) -> str:
    """Return the first part of a straggler's sentence: its name, its begin, and where its time goes.

    Both times are of the phase in which it loses most, so that no number in the sentence contradicts another.
    """
    others = "the others'" if len(subjects) > 2 else f"{subjects[1 - verdict.column]}'s"
    own = figures.own[figures.phase]
    peers = max(0.0, own - figures.excess[figures.phase])
    factor = f" ({times(own / peers)})" if _SAYS_MUCH * peers > own else ""
    return (
        f"{subjects[verdict.column]} has been slow since {clock(verdict.begin)}: {_WORDS[figures.phase]} "
        f"{step_time(own)}, {others} {step_time(peers)}{factor}"
    )


def evidence_of(figures: StragglerFigures) -> dict[str, float | str | None]:
    """Return a straggler's figures under the keys of the export."""
    return {
        "ratio": figures.ratio,
        "phase": figures.phase,
        "excess": figures.excess[figures.phase],
        "slowdown": figures.slowdown,
        "noticed": figures.measured_at,
    }
