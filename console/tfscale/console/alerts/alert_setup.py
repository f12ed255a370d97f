"""Alerts as the settings name them: the notifier with its channels, the rule, and the command that shows a run."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from tfscale.console.alerts.alert_rule import AlertRule
from tfscale.console.alerts.message import command_line
from tfscale.console.alerts.notifier import Notifier
from tfscale.console.alerts.receiver import addresses
from tfscale.console.alerts.receiver_channels import AppriseChannel, Channel, CommandChannel, WebhookChannel
from tfscale.console.alerts.run_alerts import RunAlerts
from tfscale.console.settings.config import Settings
from tfscale.console.sources.source_factory import ClusterConnection

_logger = logging.getLogger(__name__)


def open_notifier(settings: Settings, tell: Callable[[str], None] = _logger.warning) -> Notifier:
    """Return the notifier with the channels that the settings name.

    `tell` is called with a line about a receiver that fails. Raises UsageError.
    """
    for receiver in (*settings.notify, *settings.escalate, *filter(None, [settings.webhook])):
        if receiver.is_exposed:
            where = f"{receiver.place} {receiver}: other users see it in the list of processes"
            _logger.warning("%s: write it to a file, and give %s @FILE", where, receiver.place)
    channels: list[Channel] = [AppriseChannel(each) for each in addresses(settings.notify)]
    if settings.on_event is not None:
        channels.append(CommandChannel(settings.on_event))
    if settings.webhook is not None:
        channels += map(WebhookChannel, addresses([settings.webhook]))
    escalation = [AppriseChannel(each, "--escalate") for each in addresses(settings.escalate)]
    return Notifier(channels, escalation, tell)


def run_alerts(settings: Settings, notifier: Notifier, command: str, recording: Path | None = None) -> RunAlerts:
    """Return the alerts of one run; `command` is the line that shows it, `recording` the file that has it."""
    rule = AlertRule(settings.alert_from, settings.cool_down, settings.silence, settings.escalate_after)
    return RunAlerts(notifier, rule, command=command, recording=recording)


def shown_by(settings: Settings, connection: ClusterConnection) -> str:
    """Return the line with the command that shows the run of a console; empty for a simulation."""
    if connection.channels is None:
        return ""
    if settings.cluster is not None:
        return command_line("--cluster", settings.cluster.absolute())
    if settings.slurm is not None:
        return command_line("--slurm", *filter(None, [settings.slurm]))
    spec = connection.source.spec
    return command_line("--agent", settings.agent or spec.agents[spec.lead])
