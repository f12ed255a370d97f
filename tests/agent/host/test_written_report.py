"""Report of a run that is over before its console is up."""

from __future__ import annotations

import time
from collections.abc import Callable

from running_agents import W0
from tfscale.agent.host.written_report import written_report
from tfscale.agent.settings import AgentSettings


async def test_a_short_run_is_not_held_for_its_report(settings_of: Callable[..., AgentSettings]) -> None:
    settings = settings_of(W0, write_report=True, insecure_loopback=True)
    assert settings.leads
    begin = time.monotonic()
    async with written_report(settings, lambda: 0, lambda: False):
        pass
    assert time.monotonic() - begin < 5
    assert settings.files.report.exists()
