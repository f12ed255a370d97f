"""A console asks Slurm's own squeue for the job, and says in one line why it cannot."""

import shutil
from pathlib import Path

import pytest
from tfscale.console.sources.slurm_job import job_cluster
from tfscale.core.cluster.cluster_spec import ClusterError


@pytest.mark.skipif(shutil.which("squeue") is None, reason="squeue is not installed: scripts/ci/packages installs it")
@pytest.mark.parametrize("named", ["", "4711"])
def test_of_what_squeue_says_of_a_slurm_that_it_cannot_reach_the_last_line_is_told(
    named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (configuration := tmp_path / "slurm.conf").write_text("\n")
    monkeypatch.setenv("SLURM_CONF", str(configuration))
    with pytest.raises(ClusterError) as refused:
        job_cluster(named, tmp_path)
    why = "Unable to process configuration file: run the console on a host of Slurm that is up"
    assert str(refused.value) == f"--slurm: squeue: {why}"


def test_a_host_without_squeue_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ClusterError, match="there is no squeue on this host"):
        job_cluster("", tmp_path)
