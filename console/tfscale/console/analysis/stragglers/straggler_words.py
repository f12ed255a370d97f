"""Words of the straggler rule: the sentence about all stragglers of one set of subjects, and the evidence of each.

Several stragglers share one sentence because they share one cost: repairing one of two equally slow ones gains nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tfscale.console.analysis.stragglers.straggler_figures import StragglerFigures
from tfscale.console.analysis.stragglers.straggler_rule import Suspect, Verdict
from tfscale.core.records.diagnosis import BEGAN, EARLIER, Diagnosis, Evidence
from tfscale.core.text import elapsed, listing, since_when, step_time, times

TWO_KINDS = "two kinds of hardware"
"""Evidence (`suspected`) of stragglers that are half of all, for as long as known, by slow computing."""
_ALIKE = 1.1
"""Ratio of the largest to the least of several numbers up to which one mean stands for all: numbers have two digits."""
MOST_NAMES = 8
"""Names that a sentence has, at most."""
_WORDS = {
    "compute": "compute takes",
    "input": "waiting for data takes",
    "host": "Python between steps takes",
    "update": "the update takes",
}


def slower_than_peers(
    subjects: tuple[str, ...], verdicts: Sequence[Verdict], measured: Sequence[StragglerFigures]
) -> str:
    """Return the first part of the sentence: who is slow, since when, and where the time goes.

    All times are of the phase with the largest loss, so that no number contradicts another. Several stragglers are slow
    together since the newest of their onsets.
    """
    newest = max(verdicts, key=lambda verdict: verdict.begin)
    since, names = since_when(newest.begin, newest.began_earlier), [subjects[verdict.column] for verdict in verdicts]
    if len(verdicts) == 1:
        return f"{names[0]} has been slow {since}: {_where(subjects, verdicts, measured)}"
    by_phase: dict[str, list[int]] = {}
    for number, figures in enumerate(measured):
        by_phase.setdefault(figures.phase, []).append(number)
    clauses = [
        (f"in {names_of([names[number] for number in numbers])} " if len(by_phase) > 1 else "")
        + _where(subjects, [verdicts[number] for number in numbers], [measured[number] for number in numbers])
        for numbers in by_phase.values()
    ]
    noun = "replicas" if "/" in names[0] else "workers"
    who = f"{len(names)} of {len(subjects)} {noun} ({names_of(names)})"
    return f"{who} have been slow {since}: {'; '.join(clauses)}"


def begin_of(verdicts: Sequence[Verdict]) -> float:
    """Return the Unix seconds since which all of these straggle, and over which their figures are measured."""
    return max(verdict.begin for verdict in verdicts)


def _where(subjects: tuple[str, ...], verdicts: Sequence[Verdict], measured: Sequence[StragglerFigures]) -> str:
    """Return the clause with the stragglers' time in a phase and the time of their peers."""
    phase = measured[0].phase
    own = [figures.own[phase] for figures in measured]
    ratios = [figures.phase_ratio for figures in measured]
    known = [ratio for ratio in ratios if ratio is not None]
    others = "the others'" if len(subjects) > 2 else f"{subjects[1 - verdicts[0].column]}'s"
    factor = f" ({in_range(known, times)})" if len(known) == len(ratios) else ""
    return f"{_WORDS[phase]} {in_range(own, step_time)}, {others} {step_time(measured[0].peers)}{factor}"


def in_range(values: Sequence[float], text: Callable[[float], str]) -> str:
    """Return the mean of values that are alike as text, else the least and the largest: `1.2x to 1.4x`."""
    least, largest = min(values), max(values)
    shown = [sum(values) / len(values)] if largest <= _ALIKE * least else [least, largest]
    return " to ".join(dict.fromkeys(map(text, shown)))


def names_of(names: Sequence[str]) -> str:
    """Return the names as one phrase, the role of tasks once: `worker:0, 2, 4 and 6`."""
    roles = {name.partition(":")[0] for name in names}
    if len(names) < 2 or len(roles) > 1 or any("/" in name for name in names):
        return listing(names, MOST_NAMES)
    return f"{roles.pop()}:{listing([name.partition(':')[2] for name in names], MOST_NAMES)}"


def looks_slow(suspect: Suspect, now: float) -> str:
    """Return the grey words about a suspect at `now`, Unix seconds."""
    return f"{suspect.subject} looks slow, {elapsed(now - suspect.begin)}; not yet beyond noise"


def what_is_lost(measured: Sequence[StragglerFigures]) -> str:
    """Return the clause on the cluster's loss by these stragglers together."""
    return f"the cluster loses {max(figures.cost for figures in measured):.0%}"


def evidence_of(
    subjects: tuple[str, ...], verdicts: Sequence[Verdict], measured: Sequence[StragglerFigures]
) -> list[Evidence]:
    """Return the figures of each straggler under the keys of the export."""
    of_all = {"suspected": TWO_KINDS} if _are_of_two_kinds(subjects, verdicts, measured) else {}
    return [
        {
            "ratio": figures.ratio,
            "phase": figures.phase,
            **({} if figures.phase_ratio is None else {"phase_ratio": figures.phase_ratio}),
            "excess": figures.excess[figures.phase],
            "slowdown": figures.slowdown,
            "noticed": figures.measured_at,
            **({} if verdict.before is None else {"step_before": verdict.before}),
            **({BEGAN: EARLIER} if verdict.began_earlier else {}),
            **of_all,
        }
        for verdict, figures in zip(verdicts, measured, strict=True)
    ]


def together(subjects: tuple[str, ...], verdicts: Sequence[Verdict]) -> tuple[str, ...]:
    """Return the names of stragglers that share a sentence; empty for a single one."""
    return tuple(subjects[verdict.column] for verdict in verdicts) if len(verdicts) > 1 else ()


def _are_of_two_kinds(
    subjects: tuple[str, ...], verdicts: Sequence[Verdict], measured: Sequence[StragglerFigures]
) -> bool:
    """Decide whether several stragglers look as if they had other hardware than the rest."""
    if len(verdicts) < 2 or 2 * len(verdicts) < len(subjects):
        return False
    return all(verdict.before is None for verdict in verdicts) and {each.phase for each in measured} == {"compute"}


def told_together(stragglers: Sequence[Diagnosis]) -> list[list[Diagnosis]]:
    """Return the stragglers of each sentence, the newest first: since its begin all of them are slow."""
    sets: dict[tuple[str, ...], list[Diagnosis]] = {}
    for straggler in stragglers:
        sets.setdefault(straggler.together or (straggler.subject,), []).append(straggler)
    return [sorted(each, key=lambda straggler: -straggler.begin) for each in sets.values()]
