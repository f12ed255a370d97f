"""The unit that `install-service` writes, under a real user manager of systemd, and what it refuses to write."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from tfscale.agent.cli import main

_CGROUPS = Path("/sys/fs/cgroup/systemd")
_MANAGED = r"""
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/system /run/user/0
chmod 700 /run/user/0
echo $$ > "$CGROUP/cgroup.procs"
export XDG_RUNTIME_DIR=/run/user/0 DBUS_SESSION_BUS_ADDRESS=unix:path=/run/user/0/bus
exec unshare --cgroup bash -c '
/lib/systemd/systemd --user & manager=$!
for _ in $(seq 100); do systemctl --user list-units > /dev/null 2>&1 && break; sleep 0.1; done
pid() { systemctl --user show -p MainPID --value tfscale-agent; }
task() { pgrep -f "^$PROGRAM"; }
status() { systemctl --user show -p StatusText --value tfscale-agent; }
is_new() { now=$(pid); [ "$now" != 0 ] && [ "$now" != "$before" ] && status | grep -q "worker:0 runs"; }
told() { for _ in $(seq 600); do is_new && break; sleep 0.1; done; echo "$1: agent $(pid) task $(task) $(status)"; }
"$PYTHON" -m tfscale.agent.cli install-service --grace 2 -- $PROGRAM
mkdir -p "$XDG_CONFIG_HOME/systemd/user/tfscale-agent.service.d"
printf "[Service]\nWatchdogSec=5\n" > "$XDG_CONFIG_HOME/systemd/user/tfscale-agent.service.d/watchdog.conf"
systemctl --user daemon-reload
systemctl --user enable --now tfscale-agent
told start
before=$(pid); systemctl --user reload tfscale-agent; told reload
before=$(pid); kill -9 $before; told killed
before=$(pid); kill -STOP $before; told stopped
systemctl --user stop tfscale-agent
echo "end: agent $(pid) task $(task) $(status)"
kill $manager
'
"""
"""Script in a mount namespace of its own, in which nobody is the manager yet."""


def missing() -> str:
    """Return why there can be no user manager here; empty where there can be."""
    if os.geteuid() != 0:
        return "a manager of its own needs root"
    if not Path("/lib/systemd/systemd").exists() or not shutil.which("systemctl") or not shutil.which("unshare"):
        return "needs systemd and util-linux (scripts/ci/packages)"
    return "" if _CGROUPS.is_dir() else "needs systemd's own hierarchy of control groups"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "cluster.toml").write_text('cluster = "alone"\n')
    return tmp_path


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--", "no-such-program"], "no program no-such-program"),
        (["--exit-with-task", "--", "sleep", "1"], "give --no-exit-with-task"),
        *(
            (["--name", name, "--", "sleep", "1"], f"--name {name}: give at most 100 letters")
            for name in ("a/b", ".a", "a@")
        ),
        (["--cluster", "other.toml", "--", "sleep", "1"], "other.toml"),
        ([], "no program"),
    ],
)
def test_a_service_that_could_not_run_is_not_written(
    folder: Path, capsys: pytest.CaptureFixture[str], words: Sequence[str], why: str
) -> None:
    assert main(["install-service", *words]) == 2
    said = capsys.readouterr()
    assert said.out == "" and why in said.err and said.err.count("\n") == 1
    assert not (folder / "config").exists()


def test_words_come_through_and_a_unit_is_not_replaced_unasked(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("TFSCALE_ROLE", "nonsense"), ("TF_CONFIG", "{")):
        monkeypatch.setenv(name, value)
    words = ["--label=a b", "100%", "$HOME", 'say "x"', "back\\slash"]
    assert main(["install-service", "--log-level", "debug", "--", "sleep", *words]) == 0
    file = folder / "config/systemd/user/tfscale-agent.service"
    (start,) = (line for line in file.read_text().splitlines() if line.startswith("ExecStart="))
    assert f"--cluster {folder}/cluster.toml --log-level debug -- {shutil.which('sleep')} " in start
    assert start.endswith(r'"--label=a b" "100%%" "$$HOME" "say \"x\"" "back\\slash"')
    before = file.read_bytes()
    assert main(["install-service", "--", "sleep", "1"]) == 2
    assert file.read_bytes() == before and "or --force to replace it" in capsys.readouterr().err
    assert main(["install-service", "--force", "--", "sleep", "1"]) == 0


@pytest.mark.slow
@pytest.mark.skipif(missing() != "", reason=missing())
@pytest.mark.usefixtures("source_roots")
def test_a_real_manager_is_told_and_the_task_survives_its_agents(folder: Path) -> None:
    cgroup = _CGROUPS / f"tfs{os.getpid()}"
    cgroup.mkdir()
    variables = {
        "CGROUP": str(cgroup),
        "HOME": str(folder),
        "XDG_CONFIG_HOME": str(folder / "config"),
        "PYTHON": sys.executable,
        "PROGRAM": f"{shutil.which('sleep')} 1{os.getpid()}",
    }
    command = ["unshare", "--mount", "bash", "-c", _MANAGED]
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **variables}, capture_output=True, text=True, timeout=120, check=False
    )
    with contextlib.suppress(FileNotFoundError):  # it removes its own
        cgroup.rmdir()
    told = {line.split(":")[0]: line.split()[1:] for line in done.stdout.splitlines() if ": agent " in line}
    print(done.stdout, done.stderr)
    agents = [told[name][1] for name in ("start", "reload", "killed", "stopped")]
    tasks = [told[name][3] for name in ("start", "reload", "killed", "stopped")]
    assert len(set(agents)) == 4 and len(set(tasks)) == 1
    assert told["start"][4:7] == ["worker:0", "runs", "since"]
    assert told["end"] == ["agent", "0", "task", "has", "ended"]
