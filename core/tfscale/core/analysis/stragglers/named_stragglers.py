"""Stragglers as they are reported: a subject stays named until it is clearly no slower than its peers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tfscale.core.analysis.steps.blocks import Blocks
from tfscale.core.analysis.stragglers.input_cost import is_nothing
from tfscale.core.analysis.stragglers.straggler_figures import StragglerFigures
from tfscale.core.analysis.stragglers.straggler_rule import Rule, Verdict, judge, recovery
from tfscale.core.records import Diagnosis
from tfscale.core.text import clock, listing, step_time, times

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


Report = Callable[[Sequence[Verdict]], Sequence[ReportedStraggler]]
"""Function that measures and describes the stragglers of these verdicts together; empty where no steps are left."""


@dataclass(frozen=True, slots=True)
class _Named:
    verdict: Verdict
    """The verdict that named it: its window decides when it ends, where noise hides that."""
    reported: ReportedStraggler


@dataclass(slots=True)
class NamedStragglers:
    """The open stragglers of one set of subjects: adds hysteresis to the rule."""

    rule: Rule
    recovered: dict[str, float] = field(default_factory=dict)
    """Since when, Unix seconds, each one that ended in the newest evaluation is as fast as its peers."""
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
        """Time that the cluster takes over that without the open stragglers; 1 without any."""
        return max((figures.slowdown for figures in self.figures.values()), default=1.0)

    def drop(self, subjects: set[str]) -> None:
        """Forget these subjects."""
        self._named = {name: named for name, named in self._named.items() if name not in subjects}

    def judge(self, blocks: Blocks, report: Report) -> None:
        """Judge the blocks, and `report` all stragglers anew, over the steps since the newest onset.

        A subject is not named while those steps contradict the blocks: work that moves from worker to worker can keep
        the beat of the blocks.
        """
        self._end_recovered(blocks)
        fresh = {blocks.subjects[verdict.column]: verdict for verdict in judge(blocks, self.rule)}
        fresh = {subject: verdict for subject, verdict in fresh.items() if subject not in self._named}
        reported = self._reported(blocks, fresh, report)
        shown = {
            name: fresh[name] for name in fresh if name in reported and self._is_shown(fresh[name], reported[name])
        }
        if len(shown) < len(fresh):
            reported = self._reported(blocks, shown, report)
        verdicts = {name: named.verdict for name, named in self._named.items()} | shown
        self._named |= {name: _Named(verdicts[name], straggler) for name, straggler in reported.items()}

    def _is_shown(self, verdict: Verdict, straggler: ReportedStraggler) -> bool:
        figures = straggler.figures
        return figures.ratio >= self.rule.off and not is_nothing(verdict, figures, self.rule.gain_on)

    def _reported(self, blocks: Blocks, fresh: Mapping[str, Verdict], report: Report) -> dict[str, ReportedStraggler]:
        verdicts = {name: named.verdict for name, named in self._named.items()} | dict(fresh)
        columns = {subject: column for column, subject in enumerate(blocks.subjects)}
        present = [replace(verdict, column=columns[name]) for name, verdict in verdicts.items() if name in columns]
        if not present:
            return {}
        return {straggler.diagnosis.subject: straggler for straggler in report(present)}

    def _end_recovered(self, blocks: Blocks) -> None:
        self.recovered = {}
        for subject, named in self._named.items():
            if subject in blocks.subjects:
                column, verdict = blocks.subjects.index(subject), named.verdict
                since = recovery(blocks, column, verdict.begin, verdict.length, self.rule)
                if since is not None:
                    self.recovered[subject] = since
        self.drop(set(self.recovered))


def what_is_lost(
    subjects: tuple[str, ...], verdict: Verdict, verdicts: Sequence[Verdict], cost: float, at_most: bool = False
) -> str:
    """Return the clause on what the cluster loses to a straggler, together with all others of `verdicts`."""
    others = _others(subjects, verdict, verdicts)
    loses = f"the cluster loses {'up to ' if at_most else ''}{cost:.0%}"
    return f"{loses}{f' to it and {listing(others, most=8)}' if others else ''}"


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


def evidence_of(
    figures: StragglerFigures, subjects: tuple[str, ...], verdict: Verdict, verdicts: Sequence[Verdict]
) -> dict[str, float | str | None]:
    """Return a straggler's figures under the keys of the export; `verdicts` are those of all that were measured."""
    others = _others(subjects, verdict, verdicts)
    return {
        "ratio": figures.ratio,
        "phase": figures.phase,
        "excess": figures.excess[figures.phase],
        "slowdown": figures.slowdown,
        "noticed": figures.measured_at,
        **({"together": ", ".join(others)} if others else {}),
    }


def _others(subjects: tuple[str, ...], verdict: Verdict, verdicts: Sequence[Verdict]) -> list[str]:
    return [subjects[other.column] for other in verdicts if other.column != verdict.column]
