"""Runs in a real Prometheus: agents, a console, the rules and the dashboard of examples/prometheus."""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import net_hosts
import pytest
from certificates import Issuer
from local_cluster import ENVIRONMENT, end, wait_until, write_cluster
from loopback import free_addresses
from tfscale.core.access.caller_role import CallerRole
from tfscale.core.cluster.cluster_spec import Tls

from prometheus import real_prometheus
from prometheus.real_prometheus import EXAMPLE, RealPrometheus, panel_expressions

pytestmark = pytest.mark.skipif(bool(real_prometheus.missing()), reason=real_prometheus.missing())
CONSOLE = [sys.executable, "-m", "tfscale.console.cli"]
AGENT = [sys.executable, "-m", "tfscale.agent.cli"]
TRAIN = [sys.executable, "-m", "tfscale.trainer.cli", "run", "digits", "--strategy", "multi-worker"]
DCGM = 'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-00000001",device="nvidia0",Hostname="node-0001"} 87\n'
"""Line of a page of dcgm-exporter, which needs a GPU, as its documentation has it."""


@contextlib.contextmanager
def started(command: Sequence[object], out: int = subprocess.DEVNULL) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program until the block ends, or until whoever reads what it writes is gone."""
    process = subprocess.Popen([*map(str, command)], env=os.environ | ENVIRONMENT, stdout=out)
    try:
        yield process
    finally:
        if process.stdout is not None:
            process.stdout.close()
        end([process])


@contextlib.contextmanager
def exporting(address: str) -> Iterator[None]:
    """Serve the line of dcgm-exporter until the block ends."""

    class Exporter(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(DCGM.encode())

        def log_message(self, *words: object) -> None:
            pass

    host, _, port = address.partition(":")
    with http.server.ThreadingHTTPServer((host, int(port)), Exporter) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield
        server.shutdown()


@pytest.mark.slow
@pytest.mark.tensorflow
def test_a_real_run_fills_every_panel_and_its_faults_are_alerts(tmp_path: Path) -> None:
    page, console = free_addresses(2)
    cluster = write_cluster(tmp_path, 2)
    prometheus = RealPrometheus(tmp_path / "prometheus", console)
    targets = prometheus.folder / "targets" / "cluster.json"
    words = ["targets", "--cluster", cluster, "--page-port", page.partition(":")[2], "--out", targets]
    subprocess.run([*CONSOLE, *words], check=True)
    agent = [*AGENT, "--cluster", cluster, "--state-dir", tmp_path, "--grace", "5", "--metrics", page]
    train = [*TRAIN, "--steps", "1000000", "--slow", "worker:1=60ms"]
    watch = [*CONSOLE, "--cluster", cluster, "--headless", "--only", "events", "--metrics", console]
    with prometheus.running(), started([*agent, "--", *train]), started(watch):
        straggler = prometheus.alert("TfscaleStraggler", 300, run="cluster", task="worker:1")
        assert "worker:1 of cluster takes" in straggler["annotations"]["summary"]
        prometheus.alert("TfscaleFinding", 120, kind="straggler", subject="worker:1")
        for title, expression in panel_expressions("cluster").items():
            assert prometheus.wait_for(expression, 60), title
        for job in ("tfscale-agents", "tfscale-console"):
            (ratio,) = prometheus.wait_for(
                f'sum(rate(tfscale_step_phase_seconds_total{{job="{job}", task="worker:1"}}[30s]))'
            )
            # A task is always in one of its phases.
            assert float(ratio["value"][1]) == pytest.approx(1, abs=0.25), job
        (lag,) = prometheus.query('max(tfscale_lag_seconds{task="worker:1"})')
        assert float(lag["value"][1]) >= 0.06
        subprocess.run([*CONSOLE, "signal", "worker:1", "TERM", "--cluster", cluster], check=True)
        failed = prometheus.alert("TfscaleTaskFailed", 120, task="worker:1")
        assert failed["labels"]["severity"] == "critical"


@pytest.mark.slow
def test_what_a_simulation_does_is_alerts_of_quick_rules(tmp_path: Path) -> None:
    console, nobody = free_addresses(2)
    prometheus = RealPrometheus(tmp_path / "prometheus", console, is_quick=True)
    (prometheus.folder / "targets" / "nobody.json").write_text(json.dumps([{"targets": [nobody]}]))
    faults = ["worker:1=5x", "worker:2=nan@10s", "worker:3=hang@40s"]
    simulated = [*CONSOLE, "--simulate", "4", "--headless", "--only", "events", "--metrics", console]
    with prometheus.running(), started([*simulated, *(word for each in faults for word in ("--fault", each))]):
        prometheus.alert("TfscaleNoAnswer", 60, instance=nobody, job="tfscale-agents")
        prometheus.alert("TfscaleLossNotFinite", 120, run="simulated")
        prometheus.alert("TfscaleGoodputLow", 120, run="simulated")
        prometheus.alert("TfscaleNoSteps", 180, run="simulated", task="worker:3")


@pytest.mark.slow
@pytest.mark.tensorflow
def test_a_task_without_a_probe_and_a_console_that_is_held_up_are_alerts_of_quick_rules(tmp_path: Path) -> None:
    page, console = free_addresses(2)
    prometheus = RealPrometheus(tmp_path / "prometheus", console, is_quick=True)
    (prometheus.folder / "targets" / "alone.json").write_text(json.dumps([{"targets": [page]}]))
    # Python's -I keeps out the probe; a pipe that nobody reads keeps the console from all but its page.
    unmeasured = [sys.executable, "-I", "-c", "import tensorflow, time; time.sleep(600)"]
    agent = [*AGENT, "--run", "hidden", "--state-dir", tmp_path, "--metrics", page, "--", *unmeasured]
    watch = [*CONSOLE, "--simulate", "8", "--headless", "--metrics", console]
    with prometheus.running(), started(agent), started(watch, subprocess.PIPE):
        prometheus.alert("TfscaleNotMeasured", 120, run="hidden", task="worker:0")
        behind = prometheus.alert("TfscaleConsoleBehind", 120, run="simulated")
    assert behind["annotations"]["summary"].startswith("the console of simulated is ")


def test_a_gpu_of_dcgm_exporter_has_its_task(tmp_path: Path) -> None:
    (console, exporter) = free_addresses(2)
    prometheus = RealPrometheus(tmp_path / "prometheus", console)
    (prometheus.folder / "targets" / "dcgm.json").write_text(json.dumps([{"targets": [exporter]}]))
    simulated = [*CONSOLE, "--simulate", "2", "--headless", "--only", "events", "--metrics", console]
    with exporting(exporter), prometheus.running(), started(simulated):
        (joined,) = prometheus.wait_for(
            "DCGM_FI_DEV_GPU_UTIL * on (UUID) group_left (run, task) max by (run, task, UUID) (tfscale_task_gpu_info)"
        )
    assert joined["value"][1] == "87"
    assert (joined["metric"]["run"], joined["metric"]["task"]) == ("simulated", "worker:1")


@pytest.mark.slow
@pytest.mark.skipif(bool(net_hosts.missing()), reason=net_hosts.missing())
def test_beyond_loopback_prometheus_reads_by_an_observers_certificate(tmp_path: Path) -> None:
    host, issuer = net_hosts.address(0), Issuer(tmp_path / "prometheus")
    files = zip(("ca.pem", "own.pem", "own.key"), _files(issuer.tls("ann", CallerRole.OBSERVER, ())), strict=True)
    for name, file in files:
        file.rename(tmp_path / "prometheus" / name)
    own = zip(("ca", "certificate", "key"), _files(issuer.tls("agent", hosts=(host,))), strict=True)
    cluster = tmp_path / "c.toml"
    cluster.write_text(
        f'[cluster]\nworker = ["{host}:2222"]\n[tls]\n' + "\n".join(f'{name} = "{file}"' for name, file in own)
    )
    text = (EXAMPLE / "prometheus.yml").read_text().replace("15s", "1s").replace("# tls_config", "tls_config")
    (tmp_path / "prometheus.yml").write_text(text)
    shutil.copy(EXAMPLE / "tfscale.rules.yml", tmp_path)
    (tmp_path / "targets").mkdir()
    words = ["targets", "--cluster", cluster, "--out", tmp_path / "targets" / "c.json"]
    subprocess.run([*CONSOLE, *words], check=True)
    agent = [*AGENT, "--cluster", cluster, "--state-dir", tmp_path, "--metrics", ":9471", "--", "sleep", "600"]
    database = ["--config.file", tmp_path / "prometheus.yml", "--storage.tsdb.path", tmp_path / "db"]
    ask = ["promtool", "query", "instant", "http://127.0.0.1:9090", 'tfscale_task_state{state="running"} == 1']

    def is_read() -> bool:
        done = subprocess.run([*net_hosts.inside(0), *ask], capture_output=True, text=True)
        return f'instance="{host}:9471", job="tfscale-agents", run="c"' in done.stdout

    with net_hosts.hosts(1):
        inside = net_hosts.inside(0)
        with started([*inside, *agent]), started([*inside, "prometheus", *database]):
            wait_until(is_read)


def _files(tls: Tls) -> tuple[Path, Path, Path]:
    return tls.ca, tls.certificate, tls.key


@pytest.mark.slow
def test_the_openmetrics_of_a_page_is_what_prometheus_asks_for_and_keeps(tmp_path: Path) -> None:
    (console,) = free_addresses(1)
    prometheus = RealPrometheus(tmp_path / "prometheus", console)
    watched = [*CONSOLE, "--simulate", "8", "--fault", "worker:3=2x", "--headless", "--only", "events"]
    with prometheus.running(), started([*watched, "--metrics", console]):
        assert prometheus.wait_for('up{job="tfscale-console"} == 1')
        found = prometheus.wait_for('tfscale_diagnosis_active{kind="straggler", subject="worker:3"}')
        assert {each["metric"]["run"] for each in found} == {"simulated"}
        rate = prometheus.wait_for('sum(rate(tfscale_step_phase_seconds_total{task="worker:3"}[10s])) > 0.5')
        assert float(rate[0]["value"][1]) == pytest.approx(1, abs=0.4)
        assert not prometheus.query('{__name__=~"tfscale_.*", exported_run!=""}')
