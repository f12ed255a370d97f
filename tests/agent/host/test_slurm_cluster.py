"""A step of this host alone, with the real files; scontrol is the step's own."""

import resource
import socket
import stat
from pathlib import Path

import pytest
from tfscale.agent.host import slurm_cluster
from tfscale.agent.host.slurm_cluster import step_cluster
from tfscale.agent.host.slurm_step import SlurmStep
from tfscale.core.cluster.cluster_spec import ClusterError
from tfscale.core.cluster.file.cluster_file import load_cluster
from tfscale.core.cluster.file.slurm_files import newest_cluster


def step(rank: int, job: int = 900, number: int = 0, restart: int = 0) -> SlurmStep:
    return SlurmStep(job, number, restart, rank, ("localhost",), (0, 0))


def test_the_first_task_writes_what_the_others_wait_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm_cluster, "_PATIENCE", 0.1)
    with pytest.raises(ClusterError, match=r"cluster.json: not written within 0.1 s by the agent of task 0 on"):
        step_cluster(step(1), {}, tmp_path)
    path, own = step_cluster(step(0), {}, tmp_path)
    assert (step_cluster(step(1), {}, tmp_path)[0], str(own)) == (path, "worker:0")
    spec = load_cluster(path)
    assert spec.name == "900.0.0"
    assert spec.tls is not None
    assert not spec.tls.has_roles
    for each in (path, spec.tls.ca, spec.tls.certificate, spec.tls.key):
        assert stat.S_IMODE(each.stat().st_mode) == 0o600
    written = spec.tls.key.read_bytes()
    step_cluster(step(0), {}, tmp_path)
    assert spec.tls.key.read_bytes() == written, "a second program of the step keeps the certificates"


def test_in_plain_text_each_agent_writes_the_file_for_itself(tmp_path: Path) -> None:
    path, _ = step_cluster(step(1), {"insecure": True}, tmp_path)
    assert load_cluster(path).tls is None


def test_a_job_is_shown_by_its_newest_step_since_it_was_requeued(tmp_path: Path) -> None:
    steps = [step(0, number=1), step(0, number=0, restart=1), step(0, number=3, restart=0), step(0, job=9000)]
    paths = [step_cluster(each, {"insecure": True}, tmp_path)[0] for each in steps]
    assert newest_cluster(tmp_path, 900) == paths[1]
    assert newest_cluster(tmp_path, 900, "3") == paths[2]
    assert newest_cluster(tmp_path, 90) is None


def test_a_taken_port_and_an_unknown_host_start_nothing(tmp_path: Path) -> None:
    port = step(0).document([*map(slurm_cluster.Task.parse, ("worker:0", "worker:1"))])["agents"]["worker:0"][10:]
    with (
        socket.create_server(("", int(port))),
        pytest.raises(ClusterError, match=f"port {port} of localhost, for the agent of worker:0, is taken by process"),
    ):
        step_cluster(step(0), {}, tmp_path)
    unknown = SlurmStep(900, 0, 0, 0, ("localhost", "no.such.host.invalid"), (0, 1))
    with pytest.raises(ClusterError, match=r"the name of host no.such.host.invalid does not resolve on localhost"):
        step_cluster(unknown, {}, tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("rank", [0, 1])
def test_nobody_waits_for_a_file_that_cannot_be_written(rank: int, tmp_path: Path) -> None:
    (taken := tmp_path / "state").write_text("")
    with pytest.raises(ClusterError, match=r"cannot be written \(Not a directory\): give --state-dir"):
        step_cluster(step(rank), {}, taken)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))  # as a full disk: a file is made, and not filled
    try:
        with pytest.raises(ClusterError, match=r"cannot be written \(File too large\): give --state-dir"):
            step_cluster(step(rank), {}, tmp_path / "full")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not [each for each in (tmp_path / "full").rglob("*") if each.is_file()]
