"""Real faults of one of two real TensorFlow workers, and their diagnoses."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import net_hosts
import pytest
from task_cluster import LOCAL, WatchedCluster, watched

pytestmark = pytest.mark.alone

PROGRAM = Path(__file__).parents[1] / "programs" / "causes" / "causes.py"
LINK = 200e6
"""Bits a second of the link."""
IDLE = "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
COVERED = 'mount --bind "$0" /proc/pressure/cpu && exec "$@"'


def faulty(
    folder: Path, what: str, before: Sequence[Sequence[str]] = LOCAL, file: Path | None = None
) -> AbstractContextManager[WatchedCluster]:
    """Run two workers, of which one has the fault `what`; `before` is put before the commands of their agents."""
    variables = {"TF_NUM_INTRAOP_THREADS": "1", "TFSCALE_INSECURE": "1"}
    command = [sys.executable, PROGRAM, what]
    return watched(folder, command, {"worker": 2}, variables, file=file, before=before, insecure=True)


@contextlib.contextmanager
def burning(count: int, core: int) -> Iterator[None]:
    """Run so many other processes on this core, each in a session of its own: Linux shares a core between sessions."""
    command = ["taskset", "-c", str(core), sys.executable, "-c", "while True: pass"]
    processes = [subprocess.Popen(command, start_new_session=True) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def no_pressure() -> str:
    """Return why one machine cannot be two hosts with pressure figures of their own; empty where it can."""
    if os.geteuid() != 0:
        return "mounts need root"
    if not Path("/proc/pressure/cpu").exists():
        return "this kernel tells no pressure"
    if len(os.sched_getaffinity(0)) < 2:
        return "each host needs a core of its own"
    return "" if shutil.which("unshare") and shutil.which("taskset") else "it needs unshare and taskset"


@pytest.mark.matrix
@pytest.mark.tensorflow
def test_a_worker_with_more_examples_has_uneven_work(tmp_path: Path) -> None:
    with faulty(tmp_path, "uneven") as cluster:
        straggler = cluster.told("straggler", 90, cause="uneven")
    assert straggler["subject"] == "worker:1"
    assert straggler["evidence"]["phase"] == "compute"
    assert straggler["evidence"]["examples"] == 2 * straggler["evidence"]["examples_of_peers"]
    assert "it has 2.0x the examples of its peers in each step" in straggler["sentence"]


@pytest.mark.matrix
@pytest.mark.tensorflow
def test_a_worker_whose_gradients_are_no_numbers_any_more_has_crashed_for_that(tmp_path: Path) -> None:
    with faulty(tmp_path, "nan") as cluster:
        crash = cluster.told("crash", 60, followers=["worker:0"])
    assert crash["subject"] == "worker:1"
    assert crash["evidence"]["reason"] == "not_a_number"
    assert "Tensor had NaN values" in crash["evidence"]["line"]
    assert "worker:0" in crash["sentence"] and "because its peer was gone" in crash["sentence"]


@pytest.mark.slow
@pytest.mark.tensorflow
def test_the_worker_whose_gradients_were_no_numbers_first_is_named_with_its_step(tmp_path: Path) -> None:
    """No loss is known of this loop, in which both workers' gradients are none from the next step on."""
    with faulty(tmp_path, "lost") as cluster:
        found = cluster.told("not_finite", 60)
    assert found["subject"] == "worker:1"
    assert (found["evidence"]["global_step"], found["evidence"]["variable"]) == (61, "weights_0")
    assert "worker:1 were the first with NaN or infinity, in step 61 (" in found["sentence"]
    assert "4 of 4 variables" in found["sentence"]


@pytest.mark.slow
@pytest.mark.tensorflow
def test_the_worker_of_the_first_nan_is_named_also_where_it_ends_the_training_at_once(tmp_path: Path) -> None:
    with faulty(tmp_path, "fit") as cluster:
        found = cluster.told("not_finite", 60)
    assert found["subject"] == "worker:1"
    assert (found["evidence"]["global_step"], found["evidence"]["variable"]) == (61, "sequential/dense/kernel")


@pytest.mark.matrix
@pytest.mark.tensorflow
@pytest.mark.skipif(no_pressure() != "", reason=no_pressure())
def test_a_worker_beside_other_processes_is_short_of_cpu(tmp_path: Path) -> None:
    """Both have a core of their own; the machine's pressure counts as the second's, the first one's file is covered."""
    idle = tmp_path / "idle"
    idle.write_text(IDLE)
    first = ["taskset", "-c", "0", "unshare", "--mount", "sh", "-c", COVERED, str(idle)]
    with faulty(tmp_path, "plain", (first, ["taskset", "-c", "1"])) as cluster, burning(3, core=1):
        straggler = cluster.told("straggler", 120, cause="cpu")
    assert straggler["subject"] == "worker:1"
    assert straggler["evidence"]["cpu_pressure"] >= 0.1
    assert straggler["evidence"]["cpu_pressure_of_peers"] == 0
    assert "other processes compete for its CPUs" in straggler["sentence"]


@pytest.mark.matrix
@pytest.mark.tensorflow
def test_a_worker_that_is_stuck_in_its_input_is_named(tmp_path: Path) -> None:
    with faulty(tmp_path, "stuck") as cluster:
        hang = cluster.told("hang", 150)
    assert hang["subject"] == "worker:1"
    assert "it has not entered the all-reduce in which worker:0 waits" in hang["sentence"]


@pytest.mark.slow
@pytest.mark.tensorflow
@pytest.mark.skipif(net_hosts.missing() != "", reason=net_hosts.missing())
def test_a_slow_link_is_full_and_its_bandwidth_is_near_what_it_was_shaped_to(tmp_path: Path) -> None:
    cluster = tmp_path / "cluster.toml"
    workers, agents = ([f"{net_hosts.address(host)}:{port}" for host in range(2)] for port in (2222, 2230))
    lines = ["[cluster]", f"worker = {workers}", "[agents]"]
    lines += [f'"worker:{index}" = "{address}"' for index, address in enumerate(agents)]
    cluster.write_text("\n".join([*lines, "[links]", f'default = "{LINK / 1e6:.0f}Mbit/s"']))
    with net_hosts.hosts():
        for host in range(2):
            net_hosts.slow(host, LINK)
        before = (net_hosts.inside(0), net_hosts.inside(1))
        with faulty(tmp_path, "large", before, cluster) as running:
            saturation = running.told("saturation", 120, resource="link")
            run = running.read()
    evidence = saturation["evidence"]
    assert saturation["subject"] == "cluster"
    # Headers take 5 % of it; TensorFlow leaves it idle between a chunk and the next, and longer on a busy machine.
    assert evidence["bus_bandwidth"] == pytest.approx(LINK, rel=0.2)
    assert (evidence["link"], evidence["link_from"]) == (LINK, "the cluster file")
    assert "communication-bound" in saturation["sentence"] and "the link is full" in saturation["sentence"]
    assert run.told("straggler") == []
