"""`tfscale-console doctor` on hosts that are network namespaces: a port that is blocked, and a link that is slow."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import net_hosts
import pytest

pytestmark = pytest.mark.skipif(net_hosts.missing() != "", reason=net_hosts.missing())
_WAITS = "import time; print('up', flush=True); time.sleep(600)"
_ROOTS = os.pathsep.join(
    str(Path(__file__).parents[3] / name) for name in ("core", "agent", "console", "trainer", "protos")
)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Path]:
    """Yield the file of two workers on hosts of their own whose agents run, and whose tasks have been stopped."""
    file = tmp_path / "cluster.json"
    addresses = [f"{net_hosts.address(host)}:2222" for host in range(2)]
    file.write_text(json.dumps({"name": "test", "cluster": {"worker": addresses}}))
    with net_hosts.hosts(2), ExitStack() as stack:
        for host in range(2):
            words = [
                "--cluster",
                str(file),
                "--role",
                "worker",
                "--index",
                str(host),
                "--state-dir",
                str(tmp_path / f"{host}"),
            ]
            process = _start(host, "tfscale.agent.cli", *words, "--", sys.executable, "-c", _WAITS)
            stack.callback(process.wait)
            stack.callback(process.terminate)
        stopped = _console("stop", "worker:0", "--yes", file=file, until=0)
        assert stopped.returncode == 0, stopped.stderr
        yield file


def _start(host: int, module: str, *words: str) -> subprocess.Popen[str]:
    command = [*net_hosts.inside(host), sys.executable, "-m", module, *words[: words.index("--")], "--insecure"]
    return subprocess.Popen(
        [*command, *words[words.index("--") :]], env=_environment(), stderr=subprocess.DEVNULL, text=True
    )


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": _ROOTS}


def _console(*words: str, file: Path, until: int | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command of the console on the first host, again and again until it has this status."""
    command = [*net_hosts.inside(0), sys.executable, "-m", "tfscale.console.cli", *words, "--cluster", str(file)]
    deadline = time.monotonic() + 30
    while True:
        done = subprocess.run(
            [*command, "--insecure"], env=_environment(), capture_output=True, text=True, timeout=60, check=False
        )
        if until is None or done.returncode == until or time.monotonic() > deadline:
            return done
        time.sleep(0.5)


def _block(host: int, port: int) -> None:
    rule = f"add rule inet tfscale input tcp dport {port} drop"
    subprocess.run([*net_hosts.inside(host), "nft", *rule.split()], check=True)


def test_a_blocked_port_is_named_and_then_no_fault_is_left(cluster: Path) -> None:
    well = _console("doctor", file=cluster)
    assert (well.returncode, "no fault found" in well.stdout) == (0, True), well.stdout + well.stderr
    _block(1, 2222)
    blocked = _console("doctor", file=cluster)
    assert blocked.returncode == 3
    address = f"{net_hosts.address(1)}:2222"
    why = f"! worker:0 cannot reach worker:1 at {address}: no answer in 3 s: look at the firewall there"
    assert any(line.startswith(why) for line in blocked.stdout.splitlines()), blocked.stdout
    net_hosts.free(1)
    assert _console("doctor", file=cluster).returncode == 0


def test_a_slow_link_is_measured(cluster: Path) -> None:
    net_hosts.slow(1, 50e6)
    done = _console("doctor", "--bandwidth", file=cluster)
    (fast,) = re.findall(r"worker:0 to worker:1: ([\d.]+ \w+/s)", done.stdout)
    (slow,) = re.findall(r"worker:1 to worker:0: ([\d.]+) Mbit/s", done.stdout)
    assert fast.endswith("Gbit/s") and 20 < float(slow) < 60
