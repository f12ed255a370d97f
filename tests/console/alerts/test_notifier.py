"""Notifier: messages on their way to commands, web addresses and the services of apprise."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import threading
import time
from pathlib import Path

import fakes
import pytest
from alerts.http_receiver import closed_port, receiver, silent_port
from tfscale.console.alerts import notifier as notifier_module
from tfscale.console.alerts import receiver_channels
from tfscale.console.alerts.message import Change, Message, finding_alert, message
from tfscale.console.alerts.notifier import WAITING, Notifier
from tfscale.console.alerts.receiver import Receiver
from tfscale.console.alerts.receiver_channels import AppriseChannel, Channel, CommandChannel, WebhookChannel

WAITS = "waits up to "
SECRET = "3ccdd113474722377935511fc85d3dd4"


def alert(*subjects: str, end: float | None = None) -> Message:
    """Return one message about a straggler of each name."""
    named = [fakes.DIAGNOSES["not_started"] if each == "late" else fakes.straggler(each, end=end) for each in subjects]
    return message(
        [finding_alert("digits", fakes.NOW, Change.BEGAN, each) for each in named], "On here: tfscale-console"
    )


def apprise_channel(address: str) -> AppriseChannel:
    return AppriseChannel(Receiver(address, "--notify"))


async def delivered(channels: list[Channel], *messages: Message, limit: float = 60.0) -> list[str]:
    """Deliver the messages, and return what was told of the receivers, but for whom the end has waited."""
    return [line for line in await told_at_the_end(channels, *messages, limit=limit) if not line.startswith(WAITS)]


async def told_at_the_end(channels: list[Channel], *messages: Message, limit: float) -> list[str]:
    told: list[str] = []
    notifier = Notifier(channels, tell=told.append)
    for each in messages:
        notifier.send(each)
    notifier.close()
    await asyncio.wait_for(notifier.run(), limit)
    return told


async def test_a_command_gets_each_alert_as_json_and_as_variables(tmp_path: Path) -> None:
    log, words_log = tmp_path / "log", tmp_path / "words"
    words = '"$TFSCALE_EVENT_KIND $TFSCALE_EVENT_SEVERITY $TFSCALE_EVENT_CHANGE"'
    command = CommandChannel(f"cat >> {log}; echo {words} >> {words_log}")
    assert await delivered([command], alert("slow", "late"), alert("normal again", end=fakes.NOW)) == []
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["kind"] for line in lines] == ["straggler", "not_started", "straggler"]
    assert lines[0]["type"] == "alert" and lines[0]["evidence"]["ratio"] == 2.13 and lines[0]["advice"]
    assert words_log.read_text().splitlines()[0] == "straggler serious began"


async def test_a_command_that_fails_or_hangs_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiver_channels, "PATIENCE", 0.5)
    failed, hung = await delivered([CommandChannel("exit 3"), CommandChannel("sleep 100")], alert("slow"))
    assert failed.startswith("--on-event 'exit 3': it exited 3: an alert did not arrive (worker:1 slow")
    assert "--on-event 'sleep 100': it was ended: it took longer than" in hung
    (killed,) = await delivered([CommandChannel("kill -9 $$")], alert("slow"))
    assert "it was killed by SIGKILL: an alert did not arrive" in killed


async def test_what_nobody_expects_is_told_in_its_own_words_without_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    channel = apprise_channel(f"json://127.0.0.1:9/{SECRET}")

    def notify(**_: object) -> bool:
        raise RuntimeError(f"no route to {SECRET}")

    monkeypatch.setattr(channel._service, "notify", notify)
    too_long = CommandChannel("true " + "x" * 200_000)
    monkeypatch.setattr(notifier_module, "TRIES", 1)
    unexpected, unstarted = sorted(await delivered([channel, too_long], alert("slow")))
    assert "RuntimeError: no route to ...: an alert did not arrive (worker:1 slow" in unexpected
    assert "it cannot be started: Argument list too long" in unstarted


async def test_a_webhook_gets_each_alert_and_is_tried_again_unless_it_refuses() -> None:
    with receiver(503, 200, 404) as hook:
        channel = WebhookChannel(Receiver(f"http://127.0.0.1:{hook.port}/{SECRET}", "--webhook"))
        (told,) = await delivered([channel], alert("first"), alert("second"))
    assert [line["sentence"] for line in hook.got] == ["first", "first", "second"]
    assert "404" in told and SECRET not in told and f"--webhook http://127.0.0.1:{hook.port}/..." in told


async def test_a_webhook_at_a_port_that_is_no_web_server_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifier_module, "TRIES", 1)
    with socket.create_server(("127.0.0.1", 0)) as server:
        greeting = threading.Thread(target=_greet, args=[server])
        greeting.start()
        channel = WebhookChannel(Receiver(f"http://127.0.0.1:{server.getsockname()[1]}/", "--webhook"))
        (told,) = await delivered([channel], alert("slow"))
        greeting.join(30)
    assert "SSH-2.0-OpenSSH: an alert did not arrive" in told


def _greet(server: socket.socket) -> None:
    connection, _ = server.accept()
    with connection:
        connection.sendall(b"SSH-2.0-OpenSSH\r\n")
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(1 << 16):  # closed with a request unread it would be reset, at times before the greeting
            pass


async def test_services_of_apprise_get_the_title_the_text_and_the_command() -> None:
    with receiver() as slack_like, receiver() as json_receiver:
        channels: list[Channel] = [
            apprise_channel(f"mmost://127.0.0.1:{slack_like.port}/{SECRET}"),
            apprise_channel(f"json://127.0.0.1:{json_receiver.port}/{SECRET}"),
        ]
        assert await delivered(channels, alert("worker:1 has been slow", "late")) == []
    (posted,) = slack_like.got
    assert posted["text"].startswith("worker:1 slow, and 1 more [digits]\r\nserious: worker:1 has been slow.\n")
    assert posted["text"].endswith("\nOn here: tfscale-console")
    (full,) = json_receiver.got
    assert full["title"] == "worker:1 slow, and 1 more [digits]" and full["type"] == "warning"
    assert "To do: start it, or read its log" in full["message"] and "http" not in str(full.get("attachments", ""))


async def test_receivers_that_fail_delay_nobody_and_are_told_without_their_secrets(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifier_module, "_AT_THE_END", 8.0)
    caplog.set_level(logging.DEBUG)
    with receiver() as good, receiver(500, 500, 500) as broken, silent_port() as silent:
        ports = (silent, broken.port, closed_port(), good.port)
        channels: list[Channel] = [apprise_channel(f"json://user:{SECRET}@127.0.0.1:{port}/{SECRET}") for port in ports]
        begin = time.monotonic()
        told: list[str] = []
        notifier = Notifier(channels, tell=told.append)
        running = asyncio.create_task(notifier.run())
        notifier.send(alert("slow"))
        while not good.got:
            assert time.monotonic() - begin < 30
            await asyncio.sleep(0.01)
        notifier.close()
        await asyncio.wait_for(running, 40)
    failed = [line for line in told if line.startswith("--notify json://...: ")]
    assert len(failed) == 3 and next(line for line in told if line not in failed).startswith("waits up to 8 s for ")
    assert any("error=500" in line for line in told) and any("onnection error" in line for line in told)
    assert SECRET not in caplog.text + str(told)


async def test_a_message_names_those_before_that_did_not_arrive() -> None:
    with receiver(*[500] * 6) as service:
        channel = apprise_channel(f"json://127.0.0.1:{service.port}/")
        told = await delivered([channel], alert("one"), alert("late"), alert("three"), limit=60)
    assert [line.partition(": ")[2].partition(" (")[0] for line in told][-1] == "alerts arrive again; 2 before did not"
    assert len(told) == 2
    assert "Did not arrive before: worker:1 slow [digits]; worker:1 not started [digits]" in service.got[-1]["message"]


async def test_the_end_of_the_console_waits_only_so_long_for_a_receiver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifier_module, "_AT_THE_END", 0.5)
    with silent_port() as port:
        channel = WebhookChannel(Receiver(f"http://127.0.0.1:{port}/", "--webhook"))
        waits, told = await told_at_the_end([channel], alert("one"), alert("two"), limit=20)
    assert waits.startswith(WAITS) and waits.endswith(
        f" for the last alerts to be sent: --webhook http://127.0.0.1:{port}/..."
    )
    assert told == f"--webhook http://127.0.0.1:{port}/...: 2 alerts were not sent in time"


async def test_of_many_that_wait_the_oldest_are_dropped_and_named() -> None:
    with receiver() as service:
        channel = apprise_channel(f"json://127.0.0.1:{service.port}/")
        messages = [alert(f"number {number}") for number in range(WAITING + 7)]
        await delivered([channel], *messages)
    assert len(service.got) == WAITING
    assert "number 7" in service.got[0]["message"]
    assert "Did not arrive before: 2 older ones; worker:1 slow [digits]" in service.got[0]["message"]
