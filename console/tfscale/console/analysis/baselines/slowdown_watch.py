"""Slowdowns that all workers share, or that a lone worker has: every step takes longer than before.

The rule compares the parts of the step with baselines, as the straggler rule compares a worker with its peers:
docs/reference/diagnoses.md#slowdowns-of-all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from tfscale.console.analysis.baselines.baseline import OWN, PARTS, Baseline, BaselineStore
from tfscale.console.analysis.baselines.part_history import NEWEST, WARM_UP, PartHistory
from tfscale.console.analysis.baselines.run_facts import BaselineKey, RunFacts, Trained, Work, changes, is_all_known
from tfscale.console.analysis.observed.observed_task import WARM_UP_STEPS
from tfscale.console.analysis.steps.aligned_steps import AlignedSteps
from tfscale.console.analysis.steps.arrays import Floats
from tfscale.core.cluster.task import CLUSTER
from tfscale.core.records.diagnosis import Diagnosis, Evidence
from tfscale.core.text import clock, moment, plural, step_time, times

ON, OFF = 1.15, 1.08
"""Ratios to the baseline's step from which on steps are slower, and below which the slowdown ends: so low that steps
of 1.2 times the length are found in spite of noise, and so high that noise alone is no slowdown."""
PART_ON, PART_OFF = 1.5, 1.25
"""Ratios to the baseline's time of one part that count likewise, where the part costs `COST_ON`: a part alone is
noisier than the whole step, and may double for reasons that nobody feels."""
COST_ON, COST_OFF = 0.10, 0.05
"""Shares of the step that the additional time of that part must cost, and below which the slowdown ends: runs on the
same hosts differ by some percent."""
_PIECE = 5
"""Length in blocks of each stretch that must show a slowdown, and of the stretch that shows its end."""
_KEEP_EVERY = 60
"""Blocks after which the baseline is kept anew."""
_SETTLES = 10
"""Reports in a row of other work before the work counts as changed: the last batch of an epoch is smaller, and must
not count; more would mix the times of both works for longer."""
_MOST_EARLIER = 8
"""Baselines of earlier attempts of this run that are remembered."""
_SAYS_MUCH = 10.0
"""Largest factor that a sentence quotes; a larger factor belongs to a part that took no time before, and says
nothing."""

_WORDS = {
    "transfer": ("the all-reduce", ": the network is slower, or the hosts are busy with other things"),
    "input": ("{whose} waiting for data", ": look at the storage"),
    "host": ("{whose} Python between steps", ""),
    "compute": ("{whose} compute", ""),
    "update": ("{whose} update", ""),
}
"""Name of each part of the step in a sentence, and what follows from its slowdown."""
_CAUSES = {"transfer": "network", "input": "input", "host": "host"}


class Spell(NamedTuple):
    """Steps of one attempt, one size and one kind of work, whose times are comparable."""

    attempt: tuple[object, ...]
    size: int
    work: Work


@dataclass(frozen=True, slots=True)
class Identity:
    """Identity of the watched run, as far as known."""

    started: float = 0.0
    """Unix seconds at which the last of its tasks was started."""
    attempt: str = ""
    key: BaselineKey | None = None
    facts: RunFacts = field(default_factory=RunFacts)


@dataclass(frozen=True, slots=True)
class _Reference:
    """A baseline, and its comparability."""

    baseline: Baseline
    before: str
    """Phrase of the baseline's time: `before`, `up to 13:00:11`, `in the run of 2026-11-26 13:00:11`."""
    has_other_work: bool = False
    parts: int = len(PARTS)
    """Parts, the first of PARTS, that may be compared."""

    @property
    def usual(self) -> Floats:
        """Seconds of each comparable part."""
        return np.array(self.baseline.usual[: self.parts])

    @property
    def most(self) -> float:
        """Seconds of the comparable parts that noise reaches by itself."""
        return self.baseline.most - sum(self.baseline.usual[self.parts :])


class SlowdownWatch:
    """Memory of the usual time of each part of a step; it reports when steps take longer for good.

    `store` has the baselines of earlier runs; with None no earlier run is known, and nothing is kept.
    """

    def __init__(self, store: BaselineStore | None = None) -> None:
        self._store = store
        self._spell: Spell | None = None
        self._blocks: PartHistory | None = None
        self._identity = Identity()
        self._kept_at = 0
        """Blocks of the attempt when its baseline was kept last."""
        self._other_work = 0
        """Reports in a row of other work than that of the spell."""
        self._earlier: list[tuple[int, Baseline]] = []
        """(size, baseline) of earlier attempts of this run."""
        self._reference: _Reference | None = None
        """The baseline that the open slowdown is compared with."""
        self._open: Diagnosis | None = None

    @property
    def open(self) -> list[Diagnosis]:
        """Open `slowdown` findings: at most one."""
        return [self._open] if self._open else []

    @property
    def trained(self) -> Trained | None:
        """Training that the newest steps belong to; None before a step."""
        if self._spell is None:
            return None
        return Trained(self._spell.size, replace(self._identity.facts, work=self._spell.work))

    def compare(
        self,
        spell: Spell,
        fresh: AlignedSteps,
        identify: Callable[[], Identity],
        is_usual: bool = True,
    ) -> None:
        """Take in steps that all workers have reported, in order, and judge.

        `identify` returns the identity of the run. Steps beside a straggler, or of a cluster not at work, are not
        usual: they begin no slowdown, and of two workers nothing is measured over them. Of more workers the middle ones
        are measured.
        """
        if not len(fresh):
            return
        if self._blocks is None or self._is_another(spell):
            self._blocks = self._begun(spell, fresh, identify())
        blocks = self._blocks
        is_measured = is_usual or (self._open is not None and len(fresh.subjects) > 2)
        if not blocks.append(fresh, is_measured) or not is_measured:
            return
        if blocks.count - self._kept_at >= _KEEP_EVERY or (self._store is not None and self._identity.key is None):
            known, self._kept_at = identify(), blocks.count
            # Bytes and batch may differ from step to step: what the attempt was first known as, it stays.
            facts = replace(known.facts, work=self._spell.work) if self._spell else known.facts
            self._identity = replace(known, key=self._identity.key or known.key, facts=facts)
            self._keep()
        self._judge(blocks, len(fresh.subjects), fresh.subjects[0])

    def _is_another(self, spell: Spell) -> bool:
        """Decide whether these steps are not comparable with the steps so far."""
        if self._spell is None or spell[:2] != self._spell[:2]:
            return True
        self._other_work = self._other_work + 1 if spell.work != self._spell.work else 0
        return self._other_work >= _SETTLES

    def _begun(self, spell: Spell, fresh: AlignedSteps, identity: Identity) -> PartHistory:
        """Store the spell so far as an earlier one, and return the empty blocks of the next spell."""
        before = self._spell
        if (own := self._keep()) is not None and before is not None:
            self._earlier = [*self._earlier, (before.size, own)][-_MOST_EARLIER:]
        is_first = fresh.sequence[0] <= WARM_UP_STEPS or (before is not None and spell.attempt == before.attempt)
        begin = max(identity.started, float(fresh.end[0]) if is_first else 0.0)
        self._spell, self._identity, self._other_work, self._kept_at = spell, identity, 0, 0
        self._reference = self._open = None
        return PartHistory(begin + WARM_UP)

    def _own(self) -> Baseline | None:
        """Return the baseline of the present attempt, None where the attempt is too short."""
        blocks, identity = self._blocks, self._identity
        if blocks is None or blocks.usual is None:
            return None
        usual, most = blocks.usual
        end = blocks.newest[-1][1] if blocks.newest else blocks.begin
        begin = blocks.begin - WARM_UP
        return Baseline(
            usual=usual,
            most=most,
            blocks=len(blocks.past),
            begin=begin,
            end=end,
            attempt=identity.attempt,
            key=identity.key,
            facts=identity.facts,
        )

    def _keep(self) -> Baseline | None:
        """Return the baseline of the present attempt; also store it where possible."""
        own = self._own()
        if own is not None and self._store is not None and own.key is not None and own.attempt:
            self._store.keep(own)
        return own

    def _references(self) -> Iterator[_Reference]:
        """Yield the comparable baselines, first the one that shows a fault most surely."""
        if (own := self._own()) is not None:
            yield _Reference(own, "before")
        assert self._spell is not None
        size, work = self._spell.size, self._spell.work
        facts = replace(self._identity.facts, work=work)
        earlier = [each for number, each in self._earlier if number == size]
        kept = self._kept()
        others = [each for each in kept if each.key and each.key.size == size]
        for has_other_work in (False, True):
            for group, is_own_run in ((earlier, True), (others, False)):
                known = [each for each in group if each.facts.is_same_work(facts) is not has_other_work]
                if known:
                    fastest = min(known, key=lambda each: each.step)
                    yield _Reference(fastest, self._when(fastest, is_own_run), has_other_work)
        if not others and (smaller := [*_equal_but_smaller(kept, facts, size)]):
            fastest = min(smaller, key=lambda each: sum(each.usual[:OWN]))
            replicas = fastest.key.size if fastest.key else size
            yield _Reference(fastest, f"with {plural(replicas, 'replica')} on {moment(fastest.begin)}", parts=OWN)

    def _kept(self) -> Sequence[Baseline]:
        """Return the baselines of other attempts, or of this attempt as another console has seen it."""
        if self._store is None or self._identity.key is None:
            return []
        return self._store.recall(self._identity.key)

    def _when(self, baseline: Baseline, is_own_run: bool) -> str:
        same_run = baseline.attempt and baseline.attempt == self._identity.attempt
        if is_own_run or same_run:
            return f"up to {clock(baseline.end)}"
        return f"in the run of {moment(baseline.begin)}"

    def _judge(self, blocks: PartHistory, workers: int, subject: str) -> None:
        if self._open is not None and self._reference is not None:
            if _has_ended(blocks.times[-_PIECE:], self._reference):
                self._reference = self._open = None
                blocks.is_slow = False
                blocks.forget_newest(_PIECE)
                return
        elif len(blocks.newest) == NEWEST:
            self._reference = next((each for each in self._references() if _is_slower(blocks.times, each)), None)
            if self._reference is None:
                return
            blocks.is_slow = blocks.usual is not None
            blocks.forget_newest(NEWEST - _onset(blocks.times, self._reference))
        else:
            return
        begin = self._open.begin if self._open else blocks.newest[0][0]
        self._open = _describe(blocks.times, self._reference, begin, self._identity, workers, subject)


def _equal_but_smaller(baselines: Sequence[Baseline], facts: RunFacts, size: int) -> Iterator[Baseline]:
    """Yield the baselines of fewer replicas with the same work a replica."""
    replica = facts.work.a_replica(size)
    for each in baselines:
        is_equal = each.key is not None and each.facts.work.a_replica(each.key.size) == replica
        if (
            is_equal
            and each.key
            and each.key.size < size
            and each.facts.is_same_work(replace(facts, work=each.facts.work))
        ):
            yield each


def _totals(blocks: Floats, reference: _Reference) -> Floats:
    return np.asarray(blocks[:, : reference.parts].sum(axis=1))


def _is_slower(blocks: Floats, reference: _Reference) -> bool:
    """Decide whether each stretch of these (NEWEST, 5) blocks is slower than the reference."""
    usual = reference.usual
    pieces = np.median(blocks[:, : reference.parts].reshape(-1, _PIECE, reference.parts), axis=1)
    steps = np.median(_totals(blocks, reference).reshape(-1, _PIECE), axis=1)
    if steps.min() < reference.most:
        return False
    return bool(steps.min() >= ON * usual.sum()) or bool(
        ((pieces >= PART_ON * usual) & (pieces - usual >= COST_ON * steps[:, None])).all(axis=0).any()
    )


def _has_ended(blocks: Floats, reference: _Reference) -> bool:
    usual, now = reference.usual, np.median(blocks[:, : reference.parts], axis=0)
    is_part_slow = (now >= PART_OFF * usual) & (now - usual >= COST_OFF * now.sum())
    return float(np.median(_totals(blocks, reference))) < OFF * usual.sum() and not is_part_slow.any()


def _onset(blocks: Floats, reference: _Reference) -> int:
    """Return the first block whose time is nearer to the newest blocks' than to the reference."""
    totals = _totals(blocks, reference)
    middle = (float(np.median(totals[-2 * _PIECE :])) + float(reference.usual.sum())) / 2
    return min(int(np.argmax(totals >= middle)), NEWEST - _PIECE)


def _describe(
    blocks: Floats, reference: _Reference, begin: float, identity: Identity, workers: int, subject: str
) -> Diagnosis:
    usual, now = reference.usual, np.median(blocks, axis=0)
    extra = now[: reference.parts] - usual
    most = int(np.argmax(extra))
    part, before, took = PARTS[most], float(usual[most]), float(now[most])
    name, follows = _WORDS[part]
    name = name.format(whose="every worker's" if workers > 1 else f"{subject}'s")
    factor = f" ({times(took / before)})" if took < _SAYS_MUCH * before else ""
    cost = max(0.0, float(now[: reference.parts].sum() - usual.sum())) / float(now.sum())
    slower = float(now[: reference.parts].sum()) / float(usual.sum())
    changed = [*changes(reference.baseline.facts, identity.facts)]
    sentence = f"since {clock(begin)} {name} has taken {step_time(took)} a step, {step_time(before)} {reference.before}"
    sentence += f"{factor}{follows}."
    evidence: Evidence = {
        "part": part,
        "ratio": took / max(before, 1e-9),
        "excess": took - before,
        "step_ratio": slower,
        "before": reference.before,
        "cause": _CAUSES.get(part, "unknown"),
    }
    if changed:
        evidence["changed"] = tuple(changed)
    if reference.has_other_work:
        is_sure = reference.baseline.facts.work != identity.facts.work
        sentence += f" That {'is' if is_sure else 'may be'} other work, and no fault: {'; '.join(changed)}."
        return Diagnosis("slowdown", CLUSTER, begin, None, "info", sentence, evidence=evidence)
    loser = "The cluster" if workers > 1 else subject
    sentence += f"{_since(reference, changed, identity)} {loser} loses {cost:.0%}."
    evidence["cost"] = cost
    severity = "critical" if took >= 4 * before and cost >= 0.5 else "serious" if cost >= 0.33 else "warning"
    return Diagnosis("slowdown", CLUSTER, begin, None, severity, sentence, evidence=evidence)


def _since(reference: _Reference, changed: Sequence[str], identity: Identity) -> str:
    """Return the sentence about changes since the baseline, empty without known changes."""
    if changed:
        return f" Changed since: {'; '.join(changed)}."
    if reference.before != "before" and is_all_known(reference.baseline.facts) and is_all_known(identity.facts):
        return " Versions, command, hosts and batch are the same."
    return ""
