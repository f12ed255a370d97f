"""Slurm job whose agents a console shows: the named one, else the only one of this user that runs."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tfscale.core.cluster.cluster_spec import ClusterError
from tfscale.core.cluster.file.slurm_files import newest_cluster
from tfscale.core.text import printable

_PATIENCE = 30.0
"""Seconds for Slurm's controller."""


def job_cluster(named: str, state_dir: Path) -> Path:
    """Return the cluster file of a running job's newest step, or of the step in `123.0`. Raises ClusterError.

    Empty `named` means the only job.
    """
    job, _, step = named.partition(".")
    number = _named(job) if job else _only()
    path = newest_cluster(state_dir, number, step if step.isdecimal() else "*")
    if path is None:
        raise ClusterError(
            f"--slurm: job {named or number} runs, and no agent has left its cluster in {state_dir}: start the program "
            "with srun tfscale-agent -- python train.py; where agents have another --state-dir, give --cluster FILE "
            "with the cluster.json in the job's folder there"
        )
    return path


def job_clusters(named: str, state_dir: Path) -> list[Path]:
    """Return the cluster file of a running job, or empty `named`, those of all of this user's. Raises ClusterError."""
    if named:
        return [job_cluster(named, state_dir)]
    found = (newest_cluster(state_dir, number) for number in _running("--me"))
    return [path for path in found if path is not None]


def _only() -> int:
    running = _running("--me")
    if not running:
        raise ClusterError("--slurm: no job of yours runs: name one with --slurm JOBID")
    if len(running) > 1:
        raise ClusterError(f"--slurm: {len(running)} of your jobs run: name one of {', '.join(map(str, running))}")
    return running[0]


def _named(job: str) -> int:
    """Return the number of a running job, which a member of an array has, too."""
    if not (running := _running("--jobs", job)):
        raise ClusterError(f"--slurm: job {job} does not run; squeue --jobs {job} tells more")
    return running[0]


def _running(*which: str) -> list[int]:
    """Ask Slurm's controller for the numbers of running jobs. Raises ClusterError."""
    command = ["squeue", "--noheader", "--states=RUNNING", "--format=%A", *which]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_PATIENCE, check=False)
    except FileNotFoundError:
        raise ClusterError("--slurm: there is no squeue on this host: run the console on a host of Slurm") from None
    except subprocess.TimeoutExpired as error:
        said = _cause(error.stderr or b"")
        why = f" ({said})" if said else ""
        raise ClusterError(f"--slurm: squeue has not answered for {_PATIENCE:g} s{why}: is Slurm up?") from None
    except OSError as error:
        raise ClusterError(f"--slurm: squeue cannot be started: {error.strerror}") from None
    if done.returncode:
        said = _cause(done.stderr)
        if len(which) > 1 and "job id" in said.lower():
            raise ClusterError(f"--slurm: job {which[-1]}: {said}")
        raise ClusterError(f"--slurm: squeue: {said}: run the console on a host of Slurm that is up")
    return sorted({int(word) for word in done.stdout.decode().split() if word.isdecimal()})


def _cause(said: bytes) -> str:
    """Return the last line that squeue has said, which names what failed in the end."""
    lines = said.decode(errors="replace").split("\n")
    last = next((line for line in reversed(lines) if line.strip()), "")
    return re.sub(r"^(squeue: \w+|slurm_load_jobs error): ", "", printable(last)).strip()
