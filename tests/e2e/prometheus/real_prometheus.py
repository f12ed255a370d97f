"""Real Prometheus and Alertmanager with the files of examples/prometheus, and what they then know."""

from __future__ import annotations

import contextlib
import http.server
import json
import re
import shutil
import subprocess
import threading
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from local_cluster import wait_until
from loopback import free_addresses

EXAMPLE = Path(__file__).parents[3] / "examples" / "prometheus"
_PROGRAMS = ("prometheus", "promtool", "prometheus-alertmanager", "amtool")


def missing() -> str:
    """Return why there can be no Prometheus here; empty where it can run."""
    lacking = [name for name in _PROGRAMS if shutil.which(name) is None]
    return f"{' and '.join(lacking)} not installed: scripts/ci/packages installs them" if lacking else ""


class RealPrometheus:
    """Prometheus with an Alertmanager behind it, and a receiver behind that."""

    def __init__(self, folder: Path, console: str, *, is_quick: bool = False) -> None:
        self.folder, self.console = folder, console
        self.address, self.alertmanager, self._receiver = free_addresses(3)
        self.received: list[dict[str, Any]] = []
        """Alerts as the Alertmanager has posted them."""
        shutil.copytree(EXAMPLE, folder, dirs_exist_ok=True)
        (folder / "targets").mkdir()
        if is_quick:
            rules = (folder / "tfscale.rules.yml").read_text()
            (folder / "tfscale.rules.yml").write_text(_quick(rules))

    @contextlib.contextmanager
    def running(self) -> Iterator[RealPrometheus]:
        """Run both with the example's files, but other addresses and a scrape each second, until the block ends."""
        self._rewrite(
            "prometheus.yml", {"15s": "1s", "localhost:9093": self.alertmanager, "localhost:9472": self.console}
        )
        self._rewrite("alertmanager.yml", {"10s": "1s", "localhost:9499": self._receiver})
        for check in (
            ["promtool", "check", "config", "prometheus.yml"],
            ["amtool", "check-config", "alertmanager.yml"],
        ):
            done = subprocess.run(check, cwd=self.folder, capture_output=True, text=True)
            assert done.returncode == 0, done.stdout + done.stderr
        listen = "--web.listen-address"
        database = ["--config.file=prometheus.yml", "--storage.tsdb.path=db", f"{listen}={self.address}"]
        alerts = ["--config.file=alertmanager.yml", "--storage.path=am", f"{listen}={self.alertmanager}"]
        with (
            self._receiving(),
            self._process(["prometheus", *database]),
            self._process(["prometheus-alertmanager", *alerts, "--cluster.listen-address="]),
        ):
            wait_until(lambda: self._answers(f"http://{self.address}/-/ready"))
            yield self

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the result of an expression of now, without the samples that are NaN."""
        words = urllib.parse.urlencode({"query": expression})
        with urllib.request.urlopen(f"http://{self.address}/api/v1/query?{words}", timeout=30) as answer:
            result: list[dict[str, Any]] = json.load(answer)["data"]["result"]
        return [each for each in result if each["value"][1] != "NaN"]

    def wait_for(self, expression: str, patience: float = 120.0) -> list[dict[str, Any]]:
        """Return the first result of an expression that has one. Raises AssertionError after `patience` seconds."""
        found: list[dict[str, Any]] = []

        def is_there() -> bool:
            found[:] = self.query(expression)
            return bool(found)

        wait_until(is_there, patience)
        return found

    def alert(self, name: str, patience: float, **labels: str) -> dict[str, Any]:
        """Return an alert that the receiver gets within `patience` seconds."""

        def fits(alert: dict[str, Any]) -> bool:
            return {**labels, "alertname": name}.items() <= alert["labels"].items() and alert["status"] == "firing"

        found: list[dict[str, Any]] = []

        def is_there() -> bool:
            found[:] = [each for each in list(self.received) if fits(each)]
            return bool(found)

        wait_until(is_there, patience)
        return found[0]

    def _rewrite(self, name: str, changes: dict[str, str]) -> None:
        text = (self.folder / name).read_text()
        for before, after in changes.items():
            assert before in text
            text = text.replace(before, after)
        (self.folder / name).write_text(text)

    @contextlib.contextmanager
    def _process(self, command: Sequence[str]) -> Iterator[None]:
        with (self.folder / f"{command[0]}.log").open("wb") as log:
            process = subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log)
        try:
            yield
        finally:
            process.kill()
            process.wait()

    @contextlib.contextmanager
    def _receiving(self) -> Iterator[None]:
        received = self.received

        class Receiver(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                received.extend(json.loads(self.rfile.read(int(self.headers["Content-Length"])))["alerts"])
                self.send_response(200)
                self.end_headers()

            def log_message(self, *words: object) -> None:
                pass

        host, _, port = self._receiver.partition(":")
        server = http.server.ThreadingHTTPServer((host, int(port)), Receiver)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield
        finally:
            server.shutdown()
            server.server_close()

    def _answers(self, url: str) -> bool:
        return _tried(lambda: urllib.request.urlopen(url, timeout=30).close())


def _quick(rules: str) -> str:
    """Return rules that judge seconds where the example's judge minutes."""
    return re.sub(r"for: \w+", "for: 1s", rules).replace("[1m]", "[5s]").replace("> 60", "> 6")


def _tried(call: Callable[[], None]) -> bool:
    try:
        call()
    except OSError:
        return False
    return True


def panel_expressions(run: str) -> dict[str, str]:
    """Return the expression of each panel of the example's dashboard, by its title, for one run."""
    dashboard = json.loads((EXAMPLE / "dashboard.json").read_text())
    found: dict[str, str] = {}
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            found[panel["title"]] = target["expr"].replace("$run", run).replace("$__rate_interval", "1m")
    return found
