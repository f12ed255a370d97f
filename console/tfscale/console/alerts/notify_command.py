"""`tfscale-console notify`: lists the receivers of alerts, or sends each a message."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Sequence

from tfscale.console.alerts.alert_setup import open_notifier
from tfscale.console.alerts.message import Alert, Change, message
from tfscale.console.alerts.receiver import parse_receiver
from tfscale.console.alerts.receiver_channels import Channel, NotSentError
from tfscale.console.settings.config import Settings
from tfscale.core.errors import UsageError
from tfscale.core.settings.exit_status import ExitStatus


def run_notify(settings: Settings, tested: Sequence[str] | None) -> int:
    """List the receivers; as a test, send each a message, and print whether it arrived. Raises UsageError.

    `tested` has the receivers to test, an empty word for all that are set; None: no test.
    """
    if named := [parse_receiver(word, "--test") for word in tested or () if word]:
        settings = Settings(notify=tuple(named))
    channels = open_notifier(settings).channels
    if not channels:
        raise UsageError("no receiver is set: give --notify @FILE, or notify = [...] in [console] of config.toml")
    if tested is None:
        for channel in channels:
            print(channel.name)
        return ExitStatus.WELL
    return asyncio.run(_test(channels))


async def _test(channels: Sequence[Channel]) -> int:
    """Send a message to all at once, print what became of each, and return the exit status."""
    text = f"This is a test by tfscale-console on {socket.gethostname()}. Alerts about a training will come here."
    test = message([Alert("test", time.time(), Change.TEST, "info", "tfscale can reach you", text)], "")
    sent = await asyncio.gather(*(channel.send(test) for channel in channels), return_exceptions=True)
    for channel, error in zip(channels, sent, strict=True):
        if error is not None and not isinstance(error, NotSentError):
            raise error
        print(f"{channel.name}: {'sent' if error is None else error}")
    return ExitStatus.NOTHING if any(sent) else ExitStatus.WELL
