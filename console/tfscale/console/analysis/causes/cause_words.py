"""Words of causes: the end of the sentence about one straggler, or about several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tfscale.console.analysis.causes.cause_rules import DEVICE, UNKNOWN, Cause
from tfscale.console.analysis.stragglers.straggler_words import TWO_KINDS, names_of
from tfscale.core.cluster.task import subject_order
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.text import duration, since_when

IN_A_WORD: Mapping[str, str] = {
    "thermal": "overheated",
    "power": "short of power",
    "cpu": "short of CPU",
    "memory": "short of memory",
    "input": "waiting for its data",
    "host": "held up by its Python",
    "uneven": "with more work than the others",
    DEVICE: "with a slow GPU",
}
"""Words that follow the name of a worker whose slowness had this cause."""
_MOST_CLAUSES = 4
"""Causes that a sentence tells, at most."""


def with_causes(stragglers: Sequence[Diagnosis], causes: Sequence[Cause], now: float) -> list[Diagnosis]:
    """Return stragglers of one sentence, the newest first, with their causes in the evidence and in the sentence.

    The sentence also says for how long all have been slow, at `now`, Unix seconds.
    """
    newest, subjects = stragglers[0], [straggler.subject for straggler in stragglers]
    since = since_when(newest.begin, newest.began_earlier)
    more = "more than " if newest.began_earlier else ""
    lasted = f"for {more}{duration(max(0.0, now - newest.begin))} ({since})"
    sentence = newest.sentence.replace(since, lasted, 1)
    if newest.evidence.get("suspected") == TWO_KINDS and {cause.kind for cause in causes} <= {UNKNOWN, DEVICE}:
        sentence += f" {TWO_KINDS.capitalize()}?"
    else:
        sentence += _likely(subjects, causes)
    kinds = dict(zip(subjects, (cause.kind for cause in causes), strict=True))
    # In the order of `together`; of an unknown cause the phase has to do.
    phases = {each.subject: str(each.evidence.get("phase", "")) for each in stragglers}
    reasons = tuple(
        phases[name] if kinds[name] == UNKNOWN else kinds[name] for name in newest.together if name in kinds
    )
    all_of = {"reasons": reasons} if len(set(reasons)) > 1 and len(reasons) == len(newest.together) else {}
    return [
        replace(each, sentence=sentence, evidence={**each.evidence, "cause": cause.kind, **all_of, **cause.evidence})
        for each, cause in zip(stragglers, causes, strict=True)
    ]


def _likely(subjects: Sequence[str], causes: Sequence[Cause]) -> str:
    """Return the known causes, each with the names of its stragglers."""
    having: dict[str, list[str]] = {}
    for subject, cause in sorted(zip(subjects, causes, strict=True), key=lambda pair: subject_order(pair[0])):
        if cause.clause:
            having.setdefault(cause.clause, []).append(subject)
    if len(having) == 1 and len(next(iter(having.values()))) == len(subjects):
        return f" Likely cause{' of each' if len(subjects) > 1 else ''}: {next(iter(having))}."
    clauses = [f"{clause} ({names_of(having[clause])})" for clause in list(having)[:_MOST_CLAUSES]]
    clauses += [f"{len(having) - _MOST_CLAUSES} more"] if len(having) > _MOST_CLAUSES else []
    return f" Likely causes: {'; '.join(clauses)}." if clauses else ""
