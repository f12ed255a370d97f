"""`tfscale-console doctor`: looks at a cluster before a training starts, and names obstacles to training."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

from tfscale.console.doctor.checkup_table import document, table
from tfscale.console.doctor.examination_round import ExaminationRound
from tfscale.console.settings.config import Settings
from tfscale.console.sources.source_factory import connect, connect_to
from tfscale.console.transport.channels import Channels
from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.errors import UsageError
from tfscale.core.preflight.checkup import Checkup
from tfscale.core.preflight.faults import faults_of
from tfscale.core.settings.exit_status import ExitStatus

_SILENT = "agent"
"""Column of the table whose fault is that an agent does not answer."""


def run_doctor(settings: Settings, origins: Mapping[str, str], environment: Mapping[str, str]) -> int:
    """Print the checkup. Return 0 without faults, 3 with faults, 1 if no agent answered.

    Raises UsageError.
    """
    connection = connect(settings, origins, environment)
    if connection.channels is None:
        raise UsageError("doctor: a simulation has no hosts to look at: leave out --simulate")
    channels = connection.channels
    return connection.run(lambda: _look(channels, settings))


def look_at_new(spec: ClusterSpec, path: Path, environment: Mapping[str, str], *, insecure: bool) -> int:
    """Print the checkup of a cluster whose file is new. Return 3 with faults, also where no agent answers yet.

    Raises SecurityError.
    """
    connection = connect_to(spec, Settings(cluster=path, insecure=insecure), environment)
    channels = connection.channels
    assert channels is not None
    return connection.run(lambda: _look_at_new(channels, path))


async def _look_at_new(channels: Channels, path: Path) -> int:
    checkup = await _checkup(channels)
    if checkup.examined:
        faults = faults_of(checkup)
        print(table(checkup, faults))
        return ExitStatus.UNHEALTHY if faults else ExitStatus.WELL
    faults = [fault for fault in faults_of(checkup) if fault.column != _SILENT]
    for fault in faults:
        print(f"! {fault.sentence}")
    print(
        f"no agent answers yet: start tfscale-agent --cluster {path} -- python train.py on each host, then "
        f"tfscale-console doctor --cluster {path}"
    )
    return ExitStatus.UNHEALTHY if faults else ExitStatus.WELL


async def _checkup(channels: Channels, *, has_bandwidth: bool = False) -> Checkup:
    await channels.locate()
    return await ExaminationRound(channels, random.Random()).checkup(has_bandwidth=has_bandwidth)


async def _look(channels: Channels, settings: Settings) -> int:
    checkup = await _checkup(channels, has_bandwidth=settings.bandwidth)
    faults = faults_of(checkup)
    print((document if settings.json else table)(checkup, faults))
    if not checkup.examined:
        return ExitStatus.NOTHING
    return ExitStatus.UNHEALTHY if faults else ExitStatus.WELL
