"""`tfscale-console doctor`: looks at a cluster before a training starts, and names obstacles to training."""

from __future__ import annotations

import random
from collections.abc import Mapping

from tfscale.console.doctor.checkup_table import document, table
from tfscale.console.doctor.examination_round import ExaminationRound
from tfscale.console.exit_status import ExitStatus
from tfscale.console.settings.config import Settings
from tfscale.console.sources.source_factory import connect
from tfscale.console.transport.channels import Channels
from tfscale.core.errors import UsageError
from tfscale.core.preflight.faults import faults_of


def run_doctor(settings: Settings, origins: Mapping[str, str], environment: Mapping[str, str]) -> int:
    """Print the checkup. Return 0 without faults, 3 with faults, 1 if no agent answered.

    Raises UsageError.
    """
    connection = connect(settings, origins, environment)
    if connection.channels is None:
        raise UsageError("doctor: a simulation has no hosts to look at: leave out --simulate")
    channels = connection.channels
    return connection.run(lambda: _look(channels, settings))


async def _look(channels: Channels, settings: Settings) -> int:
    await channels.locate()
    checkup = await ExaminationRound(channels, random.Random()).checkup(has_bandwidth=settings.bandwidth)
    faults = faults_of(checkup)
    print((document if settings.json else table)(checkup, faults))
    if not checkup.examined:
        return ExitStatus.NOTHING
    return ExitStatus.UNHEALTHY if faults else ExitStatus.WELL
