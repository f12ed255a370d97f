"""A cluster file as it is pasted, on two machines of which one has two tasks: namespaces with names of their own."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

_CLUSTER = """
[cluster]
worker = ["machine-a:2222", "machine-b:2222"]
ps = ["machine-a:2221"]
"""
_HOSTS = "127.0.0.1 localhost\n127.0.0.2 machine-a\n127.0.0.3 machine-b\n"
_NAMESPACES = ("unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child")
_MACHINES = """
ip link set lo up
mount --bind hosts /etc/hosts
for machine in machine-a machine-b; do
    unshare --uts sh -c 'hostname $0; exec "$@" 2> $0.log' $machine {agent} &
done
until [ "$(cat machine-*.log | grep -c ' started sleep ')" = 3 ]; do sleep 0.2; done
{console}
"""


def _missing() -> str:
    if not (shutil.which("unshare") and shutil.which("ip")):
        return "needs unshare(1) of util-linux, and ip(8)"
    tried = subprocess.run([*_NAMESPACES, "--uts", "true"], capture_output=True, text=True, check=False)
    return f"needs the right to make namespaces: {tried.stderr.strip()}" if tried.returncode else ""


@pytest.mark.skipif(_missing() != "", reason=_missing())
@pytest.mark.usefixtures("source_roots")
def test_one_agent_a_machine_runs_what_the_file_gives_to_it(tmp_path: Path) -> None:
    (tmp_path / "cluster.toml").write_text(_CLUSTER)
    (tmp_path / "hosts").write_text(_HOSTS)
    common = ["--cluster", "cluster.toml", "--insecure"]
    agent = shlex.join([sys.executable, "-m", "tfscale.agent.cli", *common, "--", "sleep", "600"])
    console = shlex.join([sys.executable, "-m", "tfscale.console.cli", *common, "--once"])
    script = _MACHINES.format(agent=agent, console=console)
    shown = subprocess.run(
        [*_NAMESPACES, "sh", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    logs = {name: (tmp_path / f"{name}.log").read_text() for name in ("machine-a", "machine-b")}
    assert shown.stdout, (shown.stderr, logs)
    tasks = json.loads(shown.stdout)["tasks"]
    assert {task["task"]: task["status"]["state"] for task in tasks} == dict.fromkeys(
        ("worker:0", "worker:1", "ps:0"), "running"
    )
    served = {
        name: sorted(line.split()[4] for line in log.splitlines() if " serving " in line) for name, log in logs.items()
    }
    assert served == {"machine-a": ["machine-a:7070;", "machine-a:7071;"], "machine-b": ["machine-b:7070;"]}
