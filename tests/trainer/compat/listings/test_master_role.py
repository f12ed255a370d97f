"""A chief that TF_CONFIG calls `master`: stock TensorFlow refuses it, and the variable stays as it is."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import tfscale

pytestmark = pytest.mark.tensorflow
SITE = Path(next(path for path in tfscale.__path__ if "trainer" in path)) / "trainer" / "probe" / "entry" / "site"
SCRIPT = """
import json, os
import tensorflow as tf
strategy = tf.distribute.MultiWorkerMirroredStrategy()
resolver = strategy.cluster_resolver
print(resolver.task_type, resolver.cluster_spec().jobs, json.loads(os.environ["TF_CONFIG"])["task"]["type"])
"""


def ran(**variables: str) -> subprocess.CompletedProcess[str]:
    from loopback import free_addresses

    cluster = {"master": [*free_addresses(1)]}
    given = json.dumps({"cluster": cluster, "task": {"type": "master", "index": 0}})
    environment = os.environ | {"TF_CONFIG": given, "CUDA_VISIBLE_DEVICES": "", **variables}
    return subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=False, timeout=240
    )


def test_stock_refuses_it() -> None:
    assert "Disallowed task type found in cluster spec" in ran().stderr


def test_it_is_read_as_chief_and_stays_master_for_the_script() -> None:
    agent = {"TFSCALE_REPORT": "/nowhere", "TFSCALE_PROBE_PATH": os.pathsep.join(tfscale.__path__)}
    identity = {"TFSCALE_TASK": "chief:0", "TFSCALE_GENERATION": "1", "TFSCALE_ATTEMPT": "1", "PYTHONPATH": str(SITE)}
    done = ran(**agent, **identity)
    assert done.stdout.strip() == "chief ['chief'] master", done.stderr[-2000:]
    assert done.stderr.count("TF_CONFIG calls the chief 'master'") == 1
