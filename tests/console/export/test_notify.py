"""Notifications of important events by a command and by a web request."""

from __future__ import annotations

import asyncio
import http.server
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import fakes
import pytest
from tfscale.console.export import rows
from tfscale.console.export.notify import Notifier
from tfscale.core.records.diagnosis import Diagnosis


def told(diagnosis: Diagnosis) -> dict[str, object]:
    return rows.diagnosis_line(diagnosis, fakes.NOW)


async def test_a_command_gets_each_event_that_matters_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = tmp_path / "log"
    notifier = Notifier(
        f'cat >> {log}; echo "$TFSCALE_EVENT_KIND $TFSCALE_EVENT_SEVERITY" >> {log.with_suffix(".words")}'
    )
    link = {"type": "link", "task": "worker:0", "reason": ""}
    for state_ in ("up", "down", "refused", "up", "up"):
        notifier.report({**link, "state": state_})
    for sentence in ("slow", "slower"):
        notifier.report(told(fakes.straggler(sentence)))
    notifier.report(told(fakes.straggler("much slower", severity="critical")))
    notifier.report(told(fakes.straggler("much slower", end=fakes.NOW, severity="critical")))
    notifier.close()
    await notifier.run()
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line.get("sentence") or line["state"] for line in lines] == [
        "down",
        "up",
        "slow",
        "much slower",
        "much slower",
    ]
    assert log.with_suffix(".words").read_text().splitlines()[2:4] == ["straggler serious", "straggler critical"]
    failing = Notifier("exit 3")
    failing.report(told(fakes.straggler()))
    failing.close()
    await failing.run()
    assert "exited 3" in caplog.text


class _Hook(http.server.BaseHTTPRequestHandler):
    got: list[dict[str, object]]
    statuses: list[int]

    def do_POST(self) -> None:
        self.got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(self.statuses.pop(0) if self.statuses else 200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Write no log."""


@pytest.fixture
def hook() -> Iterator[tuple[str, type[_Hook]]]:
    handler = type("Hook", (_Hook,), {"got": [], "statuses": []})
    server = http.server.HTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/hook", handler
    server.shutdown()
    server.server_close()
    thread.join()


async def test_a_webhook_gets_events_and_is_tried_again(
    hook: tuple[str, type[_Hook]], caplog: pytest.LogCaptureFixture
) -> None:
    url, handler = hook
    handler.statuses = [503, 200, 404]
    notifier = Notifier(webhook=url)
    notifier.report(told(fakes.straggler("first")))
    notifier.report(told(replace(fakes.straggler("second"), subject="worker:0")))
    notifier.close()
    await asyncio.wait_for(notifier.run(), 20)
    assert [line["sentence"] for line in handler.got] == ["first", "first", "second"]
    assert "404" in caplog.text
