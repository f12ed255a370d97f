"""Alerts of simulated runs, as their receivers would get them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import fakes
from tfscale.console.alerts.alert_rule import AlertRule
from tfscale.console.alerts.message import Message
from tfscale.console.alerts.notifier import Notifier
from tfscale.console.alerts.run_alerts import RunAlerts
from tfscale.console.ending.run_memory import RunMemory
from tfscale.console.engine.events import Event, SecondPassed
from tfscale.console.engine.state_factory import states
from tfscale.console.sources.simulation.simulated import simulated_spec


class Collector(Notifier):
    """Notifier that keeps the messages, and those of escalation."""

    has_escalation = True

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[Message] = []
        self.escalated: list[Message] = []

    def send(self, message: Message) -> None:
        self.sent.append(message)

    def escalate(self, message: Message) -> None:
        self.escalated.append(message)

    @property
    def titles(self) -> list[str]:
        return [message.title for message in self.sent]


def told(
    events: Iterable[Event],
    workers: int,
    rule: AlertRule | None = None,
    *,
    late_until: float = 0.0,
    known: Iterable[tuple[str, str]] = (),
) -> Collector:
    """Return what is told of a run; a console that comes late goes through the seconds before `late_until` then.

    `known` is what another console has told.
    """
    collector, memory, state = Collector(), RunMemory(), states(simulated_spec(workers))()
    alerts = RunAlerts(collector, rule or AlertRule(), command="Show it")
    alerts.known(known)
    for event in events:
        state.fold(event)
        memory.fold(event)
        alerts.event_folded(event)
        if isinstance(event, SecondPassed):
            age = max(0.0, fakes.NOW + late_until - event.at)
            snapshot = replace(state.snapshot(event.at), age=age)
            memory.add(snapshot)
            alerts.snapshot_taken(snapshot, memory)
    alerts.finish(memory)
    return collector
