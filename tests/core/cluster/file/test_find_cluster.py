"""Reading of a cluster file that nobody has named."""

from __future__ import annotations

from pathlib import Path

import pytest
from tfscale.core.cluster.cluster_spec import ClusterError
from tfscale.core.cluster.file.environment_cluster import cluster_from_environment
from tfscale.core.cluster.file.find_cluster import load_found


def test_a_found_file_of_another_program_is_told_from_a_named_one(tmp_path: Path) -> None:
    path = tmp_path / "cluster.toml"
    path.write_text("[nodes]\ncount = 3\n")
    with pytest.raises(ClusterError, match=r"cluster.toml: the file has no key 'nodes'.*it was found there"):
        load_found(path)
    path.write_text('cluster = "alone"\n')
    assert load_found(path).is_alone


def test_two_agents_that_a_tf_config_puts_on_one_host_have_a_port_each() -> None:
    cluster = '{"cluster": {"worker": ["127.0.0.1:1", "127.0.0.1:2"]}, "task": {"type": "worker", "index": 0}}'
    found, _ = cluster_from_environment({"TF_CONFIG": cluster})
    assert [str(agent) for agent in found.agents.values()] == ["127.0.0.1:7070", "127.0.0.1:7071"]
