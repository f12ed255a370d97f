"""Alerts of a console with a screen: they are sent, and a receiver that fails is told on the page."""

from __future__ import annotations

import asyncio

import fakes
from alerts.http_receiver import closed_port, receiver
from tfscale.console.alerts.notifier import Notifier
from tfscale.console.alerts.receiver import Receiver
from tfscale.console.alerts.receiver_channels import AppriseChannel
from tfscale.console.alerts.run_alerts import GATHERS, RunAlerts
from tfscale.console.engine.engine import Engine
from tfscale.console.engine.state import ClusterState
from tfscale.console.tui.app import ConsoleApp
from waiting import settled, until


async def test_a_screen_sends_alerts_and_tells_that_a_receiver_fails() -> None:
    cluster = fakes.spec(3)
    source = fakes.ScriptedSource(cluster, fakes.healthy_events(cluster))
    analysis = fakes.FakeAnalysis(fakes.straggler_findings(cluster))
    with receiver() as service:
        ports = (service.port, closed_port())
        notifier = Notifier([AppriseChannel(Receiver(f"json://127.0.0.1:{port}/x", "")) for port in ports])
        alerts = RunAlerts(notifier)
        engine = Engine(source, lambda: ClusterState(cluster, analysis))
        app = ConsoleApp(engine, fakes.FakeCommands(), alerts=alerts)
        notifier.tell = app.alert_failed
        notifying = asyncio.create_task(notifier.run())
        async with app.run_test(size=(120, 40)) as pilot:
            await settled(pilot)
            for _ in range(int(GATHERS)):
                source.tick()
            await until(lambda: service.got, pilot.pause)
            await until(lambda: any("did not arrive" in each.message for each in app._notifications), pilot.pause)
        app.finish_alerts()
        notifier.close()
        await asyncio.wait_for(notifying, 30)
    assert [each["title"] for each in service.got] == ["worker:1 slow [digits]"]
