"""A real run that is watched alone: a slow worker, a hang and a crash, with the watch killed in between.

Each worker has a host of its own, and the watch another one. WATCHED_MINUTES has it take about so many minutes.
"""

from __future__ import annotations

import contextlib
import http.server
import json
import math
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import net_hosts
import pytest
from incidents.cluster import Cluster, running
from incidents.incident import Setup
from local_cluster import wait_until
from loopback import free_addresses
from prometheus import real_prometheus
from prometheus.real_prometheus import RealPrometheus
from tfscale.console.engine.events import FrameArrived
from tfscale.console.recording.recording_folder import open_recording, recordings_in
from tfscale.console.recording.recording_reader import Recording

CONSOLE = [sys.executable, "-m", "tfscale.console.cli"]
SETUP = Setup(
    variables={"PIPE": "{folder}/pipe", "TF_NUM_INTRAOP_THREADS": "1", "READ": "0.5"},
    before=lambda cluster: cluster.make_pipe("pipe"),
    policy="OnFailure",
    is_heard=False,
)
BUSY = 170.0
"""Seconds that it takes by itself."""
PAUSE = max(0.0, float(os.environ.get("WATCHED_MINUTES", "0")) * 60 - BUSY) / 4
"""Seconds of training before each accident, and before the end."""
PROMPT = 15.0
"""Seconds within which an alert arrives once its finding is known: 2 to 5 of them it waits for others."""
AT_MOST_LOST = 2.0
"""Seconds before a kill of which the recording may have nothing: an event comes each second at least, and is written
within half of one, or later where others have the cores."""
OPEN = 'tfscale_diagnosis_active{run="cluster", severity!="info"}'


class WatchedRun:
    """One watch over a cluster, a Prometheus that reads its page, and the receiver of its alerts."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, folder = cluster, cluster.folder
        self.page, self.log, self.runs = next(free_addresses(1)), folder / "watch.log", folder / "runs"
        self.prometheus = RealPrometheus(folder / "prometheus", self.page)
        self.messages: list[dict[str, Any]] = []
        """Messages as the receiver gets them by apprise."""
        self.alerts: list[tuple[float, dict[str, Any]]] = []
        """Time of arrival, Unix seconds, and alert as JSON, by the webhook."""
        self.faults: dict[tuple[str, str, str], float] = {}
        """Unix seconds at which a fault was made, or ended, by change, kind and subject of its alert."""

    def begin_watch(self) -> subprocess.Popen[bytes]:
        hook = f"127.0.0.1:{self.port}"
        words = ["--notify", f"json://{hook}/apprise", "--webhook", f"http://{hook}/hook", "--metrics", self.page]
        command = [*CONSOLE, "watch", "--cluster", self.cluster.folder / "cluster.toml", "--runs", self.runs, *words]
        with self.log.open("ab") as log:
            return subprocess.Popen(command, env=self.cluster.environment(), stderr=log)

    def kill(self, watch: subprocess.Popen[bytes]) -> None:
        """Kill the watch, and require that its recording has what its page had a second before."""
        with urllib.request.urlopen(f"http://{self.page}/metrics", timeout=30) as answer:
            known = re.search(r"^tfscale_run_snapshot_time_seconds.* (\S+)$", answer.read().decode(), re.MULTILINE)
        watch.kill()
        killed = time.time()
        watch.wait()
        (path,) = (path for folder in self.runs.glob("*/") for path in recordings_in(folder))
        until = Recording(path).end
        assert known is not None
        print(f"the recording ends {killed - until:.2f} s before the kill, {float(known[1]) - until:.2f} s of the page")
        assert float(known[1]) - until <= AT_MOST_LOST

    def order(self, task: str, word: str, change: str, kind: str) -> None:
        """Begin an accident of a task, or with an empty word end it; its alert will be of this change and kind."""
        self.faults[change, kind, task] = time.time()
        self.cluster.order(task, word)

    def step(self, index: int) -> int:
        """Return how many steps a worker has made, as its page says; 0 before any."""
        found = self.prometheus.query(f'tfscale_steps_total{{task="worker:{index}"}}')
        return int(float(found[0]["value"][1])) if found else 0

    def told(self, kind: str, *changes: str) -> dict[str, Any]:
        """Return the first alert about one of these changes of a finding, once it is there."""

        def alerts() -> list[dict[str, Any]]:
            return [each for _, each in self.alerts if each.get("kind") == kind and each["change"] in changes]

        wait_until(lambda: bool(alerts()))
        return alerts()[0]

    def take(self, alert: dict[str, Any]) -> None:
        """Keep an alert that has arrived, and print how long after its fault that was."""
        at, what = time.time(), (alert["change"], alert.get("kind", ""), alert.get("subject", ""))
        self.alerts.append((at, alert))
        print(f"{' '.join(what)}: told {at - self.faults.get(what, math.nan):.1f} s after it: {alert['text']}")

    def require_each_told_once(self, shown: Mapping[tuple[str, str], Sequence[float]]) -> None:
        """Require one begin and one end of each fault, soon after the page had it: `shown` has the times at which."""
        news: dict[tuple[str, str, str], list[float]] = {}
        for arrived, alert in self.alerts:
            news.setdefault((alert["change"], alert.get("kind", ""), alert.get("subject", "")), []).append(arrived)
        known = {("straggler", "worker:1"), ("still", "worker:2"), ("crash", "worker:0")}
        assert known <= shown.keys()
        for kind, subject in known:
            for change, at in (("began", shown[kind, subject][0]), ("over", shown[kind, subject][-1])):
                arrivals = news.pop((change, kind, subject), [])
                print(f"{change} {kind} {subject}: told {[round(each - at, 1) for each in arrivals]} s after the page")
                assert len(arrivals) == 1 or (kind, change, arrivals) == ("crash", "began", [])
                assert all(each - at <= PROMPT for each in arrivals)
        # Others on the machine may slow all of it, which is told, too, once.
        ended = news.pop(("ended", "", ""))
        assert len(ended) == 1 and {kind for _, kind, _ in news} <= {"slowdown"}
        assert all(len(arrivals) == 1 for arrivals in news.values())
        titles = [message["title"] for message in self.messages]
        assert len(titles) == len({*titles}) and any("ended: " in title for title in titles), titles

    @contextlib.contextmanager
    def receiving(self) -> Iterator[None]:
        run = self

        class Receiver(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                document = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if self.path == "/apprise":
                    run.messages.append(document)
                else:
                    run.take(document)
                self.send_response(200)
                self.end_headers()

            def log_message(self, *words: object) -> None:
                pass

        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as server:
            self.port = server.server_port
            threading.Thread(target=server.serve_forever, daemon=True).start()
            yield
            server.shutdown()


def ranged(prometheus: RealPrometheus, begin: float, expression: str) -> dict[tuple[str, str], list[float]]:
    """Return what promtool prints of an expression from `begin` until now: times with a sample, by kind and subject."""
    times = [f"--start={begin:.0f}", f"--end={time.time():.0f}", "--step=1s", "--format=json"]
    words = ["promtool", "query", "range", *times, f"http://{prometheus.address}", expression]
    found = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    return {(each["metric"]["kind"], each["metric"]["subject"]): [at for at, _ in each["values"]] for each in found}


def reported(folder: Path) -> dict[str, Any]:
    """Return the report of a run's folder."""
    done = subprocess.run([*CONSOLE, "report", folder, "--format", "json"], check=True, capture_output=True, text=True)
    (found,) = json.loads(done.stdout)["runs"]
    return dict(found)


@pytest.mark.matrix(group="watched")
@pytest.mark.tensorflow
@pytest.mark.skipif(bool(real_prometheus.missing()), reason=real_prometheus.missing())
@pytest.mark.skipif(bool(net_hosts.missing()), reason=net_hosts.missing())
def test_a_slow_worker_a_hang_and_a_crash_are_told_once_each_though_the_watch_was_killed(short_path: Path) -> None:
    began = time.time()
    with running(short_path, SETUP) as cluster, net_hosts.entered(cluster.host("console")):
        run = WatchedRun(cluster)
        with run.receiving(), run.prometheus.running(), ended_at_last(run.begin_watch()) as watches:
            suffer(run, watches)
            stop = [*CONSOLE, "stop", "worker:0", "--yes", "--cluster", short_path / "cluster.toml"]
            subprocess.run(stop, check=True, env=cluster.environment())
            stopped = time.time()
            # Its writer gives way to all others, and a run of ten minutes took it two on a busy machine.
            wait_until(lambda: any(run.runs.glob("*/report.txt")), 600)
            shown = ranged(run.prometheus, began, OPEN)
    run.require_each_told_once(shown)
    (folder,) = {path.parent for path in run.runs.glob("*/run.json")}
    report = reported(folder)
    spent, took = sum(report["spent"].values()), stopped - report["begin"]
    print(f"the parts of its time are {spent:.1f} s of {took:.1f}")
    assert spent == pytest.approx(took, rel=0.02)
    text = (folder / "report.txt").read_text()
    assert all(words in text for words in ("1 standstill, worker:2", "1 straggler, worker:1", "1 crash, worker:0"))
    numbers: dict[str, list[int]] = {}
    for event in open_recording(folder).events():
        if isinstance(event, FrameArrived):
            numbers.setdefault(str(event.task), []).append(event.frame.sequence)
    # What came while no watch was there, it had from the agents.
    assert len(numbers) == 3 and all(each == list(range(len(each))) for each in numbers.values())


@contextlib.contextmanager
def ended_at_last(first: subprocess.Popen[bytes]) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Yield the watches, of which the last is ended with the block, and must end well."""
    watches = [first]
    try:
        yield watches
    finally:
        watches[-1].terminate()
        ended = watches[-1].wait(60)
    assert ended == 0


def suffer(run: WatchedRun, watches: list[subprocess.Popen[bytes]]) -> None:
    """Have one worker slow, another one hang and the third crash, and wait for each alert."""
    prometheus = run.prometheus
    prometheus.wait_for("tfscale_run_step_seconds", 180)
    # Steps that the straggler is compared with, and from which a slowdown would be seen.
    wait_until(lambda: run.step(1) > 100)
    time.sleep(PAUSE)
    run.order("worker:1", "slow disk", "began", "straggler")
    slow = run.told("straggler", "began")
    assert "worker:1 has been slow for" in slow["text"] and "waiting for data takes" in slow["text"]
    run.kill(watches[-1])
    watches.append(run.begin_watch())
    wait_until(lambda: "goes on, in" in run.log.read_text())
    run.order("worker:1", "", "over", "straggler")
    run.told("straggler", "over")
    time.sleep(PAUSE)
    run.order("worker:2", "hanging disk", "began", "still")
    hang = run.told("still", "began")
    assert "worker:2 has not entered the all-reduce in which worker:0 and worker:1 wait" in hang["text"]
    run.order("worker:2", "", "over", "still")
    (run.cluster.folder / "pipe").write_bytes(b"")
    run.told("still", "over")
    time.sleep(PAUSE)
    run.faults["began", "crash", "worker:0"] = time.time()
    run.cluster.signal("worker:0", signal.SIGKILL)
    # Where its task runs again within the seconds of gathering, both are one message.
    assert "worker:0 was killed by SIGKILL at" in run.told("crash", "began", "over")["text"]
    run.told("crash", "over")
    prometheus.wait_for('tfscale_task_generation{task="worker:0"} == 2')
    prometheus.wait_for("tfscale_run_step_seconds", 180)
    time.sleep(PAUSE)
