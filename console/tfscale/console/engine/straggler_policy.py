"""The policy `on_straggler`, carried out by a live console: a worker that makes the others wait is restarted unasked.

The lead's agent describes the policy, and restarts; the rule in `console/analysis/restarts/worth_restarting.py` decides
which straggler is worth it. docs/how-it-works/ownership.md#a-slow-worker.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Protocol

from tfscale.console.analysis.condition.cluster_condition import Condition
from tfscale.console.analysis.restarts import worth_restarting
from tfscale.console.analysis.restarts.worth_restarting import PolicyRestart
from tfscale.console.engine.checkpoint_age import checkpoint_age
from tfscale.console.engine.events import CommandProgressed, PolicyTold
from tfscale.console.engine.inbox import Inbox
from tfscale.console.engine.model import Snapshot
from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.cluster.placement.place_rule import MOVABLE
from tfscale.core.cluster.recovery_policy import OnStraggler
from tfscale.core.cluster.restart import keeps_training, plan_restart
from tfscale.core.cluster.task import Role, Task
from tfscale.core.errors import TfscaleError
from tfscale.core.records.diagnosis import Diagnosis

_AGAIN = 600.0
"""Seconds after a refusal until the lead is asked again for the same straggler: sooner, refusals fill its log; later, a
straggler whose reason of refusal is gone stays slow for as long.
"""
_SETTLED = 3.0
"""Seconds after a refusal in which another console's restart becomes visible: frames come once a second, and a busy
host is late by one; without them such a restart would look like a refusal.
"""
_TRAINING = (Role.CHIEF, Role.WORKER, Role.PS)


class Restarter(Protocol):
    """Sender of restarts by the policy."""

    def restart_slow(
        self, task: Task, policy: str, reason: str, generation: int, *, was_worth_it: bool
    ) -> AsyncIterator[CommandProgressed]:
        """Restart a slow task, and yield the progress. Raises a TfscaleError."""


@dataclass(slots=True)
class _Held:
    """Straggler that may be restarted, for as long as it lasts."""

    key: tuple[str, float]
    """Subject and begin."""
    since: float | None = None
    """Time since which the straggler could be restarted without a break, Unix seconds; None while it could not."""
    announced: set[str] = field(default_factory=set)
    """Rules against a restart of the straggler that have an event already."""
    asked: float | None = None
    """Time at which the lead was asked last."""


@dataclass(frozen=True, slots=True)
class _Refusal:
    """Refusal of the lead, perhaps because another console came first."""

    task: Task
    generation: int
    words: str
    at: float


@dataclass(frozen=True, slots=True)
class _Loss:
    """Price of a restart."""

    downtime: float | None
    """Seconds that a restart of the same tasks has cost, without repeated steps; None where none was measured."""
    untrained: float | None
    """Seconds of training that are repeated; None where no checkpoint is known."""


class StragglerPolicy:
    """Reaction of one console to stragglers. `why_not` returns why it may give no orders, empty where it may."""

    def __init__(
        self, spec: ClusterSpec, restarter: Restarter, now: Callable[[], float], why_not: Callable[[], str]
    ) -> None:
        self._spec, self._restarter, self._now, self._why_not = spec, restarter, now, why_not
        self._tasks = {str(task): task for task in spec.agents}
        self._held: _Held | None = None
        self._earlier: dict[str, PolicyRestart] = {}
        """The last restart by the policy of each worker that was measured."""
        self._downtimes: dict[frozenset[str], float] = {}
        """Seconds that the last restart of these tasks has cost, without repeated steps."""
        self._refusal: _Refusal | None = None
        self._told_refusal = ""
        self._order: asyncio.Task[None] | None = None

    async def close(self) -> None:
        """Ask for nothing more; a restart that has begun goes on at the agents."""
        if self._order is not None:
            self._order.cancel()
            await asyncio.gather(self._order, return_exceptions=True)

    def consider(self, snapshot: Snapshot, inbox: Inbox) -> None:
        """Take in a new diagnosis, and restart the straggler that has lasted for long enough."""
        policy = _policy_of_lead(self._spec, snapshot)
        self._learn(snapshot, policy, inbox)
        self._tell_refusal(snapshot, inbox)
        if self._is_asking or policy is OnStraggler.TELL:
            return
        straggler, held = self._straggler(snapshot), self._held
        if straggler is None:
            if held is not None:
                held.since = None
            return
        key = (straggler.subject, straggler.begin)
        if held is None or held.key != key:
            self._held = held = _Held(key)
        held.since = snapshot.at if held.since is None else held.since
        # A pause in which all stand still, as for a checkpoint, is no break.
        trains = snapshot.findings.condition.kind is Condition.TRAINING
        if trains and snapshot.at - held.since >= worth_restarting.LASTS:
            self._act(straggler, policy, snapshot, inbox, held)

    def _straggler(self, snapshot: Snapshot) -> Diagnosis | None:
        """Return the straggler that may be restarted, None where there is none."""
        slow = worth_restarting.lone_straggler(snapshot.findings.diagnoses)
        task = None if slow is None else self._tasks.get(slow.subject)
        return slow if task is not None and snapshot.view(task).is_up else None

    @property
    def _is_asking(self) -> bool:
        return self._order is not None and not self._order.done()

    def _act(self, straggler: Diagnosis, policy: OnStraggler, snapshot: Snapshot, inbox: Inbox, held: _Held) -> None:
        """Restart a straggler, or say once why it is left."""
        if held.asked is not None and snapshot.at - held.asked < _AGAIN:
            return
        task = self._tasks[straggler.subject]
        loss = self._loss(task, policy, snapshot)
        for rule, why in self._reasons_to_leave(straggler, policy, loss):
            if why:
                if rule not in held.announced:
                    held.announced.add(rule)
                    inbox.put(PolicyTold(self._now(), task, f"not restarted by on_straggler: {why}"))
                return
        held.asked = snapshot.at
        rate = snapshot.findings.steps_per_second
        repeated = None if loss.untrained is None or rate is None else loss.untrained * rate
        reason = worth_restarting.reason(straggler, repeated)
        self._order = asyncio.create_task(self._restart(task, policy, reason, snapshot.generation or 0, inbox))

    def _reasons_to_leave(self, straggler: Diagnosis, policy: OnStraggler, loss: _Loss) -> Iterator[tuple[str, str]]:
        """Yield (rule, its reason to leave the straggler, empty for none), in the order of their events."""
        yield "cause", worth_restarting.why_not_mended(straggler, policy)
        earlier = self._earlier.get(straggler.subject)
        yield "earlier", "" if earlier is None or earlier.was_worth_it else "its last restart has not gained enough"
        if loss.untrained is None:
            yield "checkpoint", "no checkpoint of it is known, and it would begin anew"
            return
        after = worth_restarting.pays_back_after(straggler, loss.downtime, loss.untrained)
        yield "price", worth_restarting.why_not_paid_back(after)
        yield "rights", self._why_not()

    def _loss(self, task: Task, policy: OnStraggler, snapshot: Snapshot) -> _Loss:
        """Return what the cluster would lose by a restart of the task."""
        spec = self._spec
        if policy is OnStraggler.REPLACE:
            together = tuple(each for each in spec.tasks if each.role in MOVABLE)
        else:
            together = plan_restart(spec, snapshot.governing, [task])
        downtime = self._downtimes.get(frozenset(str(each) for each in together if each.role in _TRAINING))
        if keeps_training(spec, snapshot.governing, together):
            return _Loss(downtime, 0.0)
        return _Loss(downtime, checkpoint_age(snapshot, [together]))

    async def _restart(self, task: Task, policy: OnStraggler, reason: str, generation: int, inbox: Inbox) -> None:
        earlier = self._earlier.get(str(task))
        was_worth_it = earlier is not None and earlier.was_worth_it
        try:
            steps = self._restarter.restart_slow(task, policy, reason, generation, was_worth_it=was_worth_it)
            async for progress in steps:
                inbox.put(replace(progress, at=self._now()))
        except TfscaleError as error:
            self._refusal = _Refusal(task, generation, str(error), self._now())

    def _tell_refusal(self, snapshot: Snapshot, inbox: Inbox) -> None:
        """Say why the lead has refused a restart, unless another console, or a person, was first."""
        refusal = self._refusal
        if refusal is None or snapshot.at - refusal.at < _SETTLED:
            return
        self._refusal = None
        is_news = refusal.words != self._told_refusal
        if is_news and snapshot.generation == refusal.generation:
            self._told_refusal = refusal.words
            inbox.put(PolicyTold(self._now(), refusal.task, f"not restarted by on_straggler: {refusal.words}"))

    def _learn(self, snapshot: Snapshot, policy: OnStraggler, inbox: Inbox) -> None:
        """Take in the cost and gain of past restarts."""
        for restart in snapshot.changes:
            if restart.kind != "restart":
                continue
            downtime = worth_restarting.downtime_of(restart, snapshot.findings.local_steps)
            if downtime is not None and isinstance(tasks := restart.evidence.get("tasks"), tuple):
                self._downtimes[frozenset(tasks)] = downtime
            earlier = worth_restarting.by_policy(restart)
            # The name is an agent's word: this cluster may have no such task.
            if earlier is None or (task := self._tasks.get(earlier.worker)) is None:
                continue
            self._earlier[earlier.worker] = earlier
            if earlier.words and policy is not OnStraggler.TELL:
                inbox.put(PolicyTold(self._now(), task, earlier.words))


def _policy_of_lead(spec: ClusterSpec, snapshot: Snapshot) -> OnStraggler:
    """Return the policy that the lead's agent describes; TELL without a description, or for a later version's."""
    described = snapshot.view(spec.lead).description
    name = "" if described is None else described.on_straggler
    return OnStraggler(name) if name in tuple(OnStraggler) else OnStraggler.TELL
