# ruff: noqa: F821
"""Two workers whose TF_CONFIG is written with a module that nobody imports."""

import os

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
os.environ["TF_CONFIG"] = json.dumps(
    {
        "cluster": {"worker": ["localhost:12345", "localhost:23456"]},
        "task": {"type": "worker", "index": 0},
    }
)
