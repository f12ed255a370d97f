"""Clusters in which every task may run the script: only those without a chief are served for the script."""

import pytest

pytestmark = pytest.mark.tensorflow


@pytest.mark.parametrize(
    ("cluster", "role"),
    [
        ({"chief": ["h:1"], "worker": ["h:2"], "ps": ["h:3"]}, "chief"),
        ({"chief": ["h:1"], "worker": ["h:2"], "ps": ["h:3"]}, "worker"),
        ({"worker": ["h:2"], "ps": ["h:3"]}, "evaluator"),
        ({"worker": ["h:2"], "ps": ["h:3"]}, None),
        ({"worker": ["h:2"]}, "worker"),
    ],
)
def test_other_clusters_and_roles_are_left_as_they_are(cluster: dict[str, list[str]], role: str | None) -> None:
    import tensorflow as tf
    from tfscale.trainer.compat.listings import without_chief

    spec = tf.train.ClusterSpec(cluster)
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(spec, task_type=role, task_id=0)
    assert without_chief._coordinator(resolver) is resolver
    assert without_chief._servers == []


def test_the_coordinator_gets_a_free_port_on_the_host_of_its_worker() -> None:
    from tfscale.trainer.compat.listings import without_chief

    host, _, port = without_chief._free_address("10.0.0.2:2222").rpartition(":")
    assert host == "10.0.0.2" and 0 < int(port) < 65536
