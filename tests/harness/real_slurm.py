"""Real Slurm on one machine: a controller with its login host, and two nodes of two CPUs in network namespaces."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import net_hosts

KILL_WAIT = 6
"""Seconds from a job's SIGTERM to its SIGKILL."""
NODES = ("tf1", "tf2")
_CONFIGURATION = """\
ClusterName=tfscale
SlurmctldHost=login({login})
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/pgid
TaskPlugin=task/affinity
ReturnToService=2
SwitchType=switch/none
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1,sched_min_interval=0
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiParams=ports=21000-21999
RebootProgram=/bin/true
KillWait={kill_wait}
MinJobAge=300
NodeName=tf1 NodeAddr={tf1} CPUs=2 State=UNKNOWN
NodeName=tf2 NodeAddr={tf2} CPUs=2 State=UNKNOWN
PartitionName=main Nodes=tf[1-2] Default=YES MaxTime=INFINITE State=UP
"""
_PATIENCE = 60.0
"""Seconds for what takes a second on an idle machine."""


def missing() -> str:
    """Return why there can be no Slurm here; empty where it can run."""
    programs = ("slurmctld", "slurmd", "srun", "munged", "unshare", "nsenter")
    if lacking := [name for name in programs if not _program(name)]:
        return f"{' and '.join(lacking)} not installed: scripts/ci/packages installs them"
    return net_hosts.missing()


class RealSlurm:
    """Slurm that runs; commands are given on its login host."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.home = folder, folder / "home"
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "TFSCALE_"))},
            "SLURM_CONF": str(folder / "slurm.conf"),
            "HOME": str(self.home),
            "XDG_STATE_HOME": str(self.home / "state"),
            "XDG_CONFIG_HOME": str(self.home / "config"),
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "CUDA_VISIBLE_DEVICES": "",
            "TF_CPP_MIN_LOG_LEVEL": "2",
        }

    def start(
        self, *command: str | Path, variables: Mapping[str, str] | None = None, host: int = 0
    ) -> subprocess.Popen[str]:
        """Start a command on the login host, or on a node."""
        return subprocess.Popen(
            [*on(self.folder, host), *map(str, command)],
            env=self._environment | (variables or {}),
            cwd=self.home,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(
        self, *command: str | Path, variables: Mapping[str, str] | None = None, seconds: float = 60
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on the login host to its end."""
        started = self.start(*command, variables=variables)
        try:
            out, errors = started.communicate(timeout=seconds)
        finally:
            started.kill()
        return subprocess.CompletedProcess(command, started.returncode, out, errors)


def on(folder: Path, host: int) -> list[str]:
    """Return the words to put before a command: it runs on a host, which knows all by their names."""
    name = ("login", *NODES)[host]
    script = f'hostname {name}; mount --bind {folder}/hosts /etc/hosts; exec "$@"'
    return [*net_hosts.inside(host), "unshare", "-u", "-m", "bash", "-c", script, "bash"]


@contextlib.contextmanager
def running(folder: Path) -> Iterator[RealSlurm]:
    """Run Slurm for as long as the block lasts."""
    slurm = RealSlurm(folder)
    _write_files(folder, slurm)
    with contextlib.ExitStack() as stack:
        stack.enter_context(net_hosts.hosts(1 + len(NODES)))
        munged = [_program("munged"), "-F", "-f", "-S", folder / "munge.socket", "--key-file", folder / "munge.key"]
        munged += ["--pid-file", folder / "munge.pid", "--log-file", folder / "munge.log"]
        stack.enter_context(_daemon([*munged, "--seed-file", folder / "munge.seed"]))
        until(lambda: (folder / "munge.socket").exists(), "munged is not up")
        configuration = folder / "slurm.conf"
        stack.enter_context(_daemon([*on(folder, 0), _program("slurmctld"), "-D", "-f", configuration]))
        for host, name in enumerate(NODES, 1):
            node = [*on(folder, host), _program("slurmd"), "-D", "-N", name, "-f", configuration]
            stack.enter_context(_daemon(node, host))
        until(lambda: "2 idle" in slurm.run("sinfo", "-h", "-o", "%D %t").stdout, "the nodes are not idle")
        yield slurm


def _write_files(folder: Path, slurm: RealSlurm) -> None:
    for path in (slurm.home, folder / "state", *(folder / "spool" / name for name in NODES)):
        path.mkdir(parents=True)
    addresses = dict(zip(("login", *NODES), map(net_hosts.address, range(3)), strict=True))
    names = [f"{address} {name}\n" for name, address in addresses.items()]
    (folder / "hosts").write_text("".join(["127.0.0.1 localhost\n", *names]))
    (folder / "slurm.conf").write_text(_CONFIGURATION.format(folder=folder, kill_wait=KILL_WAIT, **addresses))
    (folder / "munge.key").write_bytes(os.urandom(128))
    (folder / "munge.key").chmod(0o400)


@contextlib.contextmanager
def _daemon(command: Sequence[object], host: int | None = None) -> Iterator[None]:
    """Run a daemon until the block ends, and end what it has left on its host."""
    process = subprocess.Popen([*map(str, command)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.kill()
        process.wait()
        for left in [] if host is None else net_hosts.processes(host):
            with contextlib.suppress(ProcessLookupError):
                os.kill(left, 9)


def until(is_true: Callable[[], object], what: str) -> None:
    end = time.monotonic() + _PATIENCE
    while not is_true():
        assert time.monotonic() < end, what
        time.sleep(0.2)


def _program(name: str) -> str | None:
    return shutil.which(name, path=os.pathsep.join([os.environ["PATH"], "/usr/sbin", "/sbin"]))
