"""A script for a TPU where there is none."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from local_cluster import ENVIRONMENT

SCRIPT = """
import tfscale.trainer.measure
import tensorflow as tf

resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu="local")
tf.config.experimental_connect_to_cluster(resolver)
tf.tpu.experimental.initialize_tpu_system(resolver)
"""


@pytest.mark.tensorflow
def test_one_line_says_that_there_is_no_tpu_and_what_to_do() -> None:
    environment = os.environ | ENVIRONMENT
    ended = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    (line,) = [line for line in ended.stderr.splitlines() if line.startswith("tfscale: ")]
    assert line.startswith("tfscale: cannot run: no TPU to train on (")
    assert "TPUClusterResolver(tpu='local')" in line
