"""Training under MirroredStrategy with a probe in which something is missing or fails; it prints what is left of it.

python hooked.py intact | missing | failed
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.checkpoint import checkpoint
from tensorflow.python.distribute import mirrored_strategy
from tfscale.trainer import tf_internals

how = sys.argv[1]


def rename_a_parameter() -> None:
    original = mirrored_strategy.MirroredExtended._batch_reduce_to

    def batch_reduce_to(self: Any, reduce_op: Any, pairs: Any, options: Any) -> Any:
        return original(self, reduce_op, pairs, options)

    mirrored_strategy.MirroredExtended._batch_reduce_to = batch_reduce_to


if how == "missing":
    del checkpoint.TrackableSaver.restore
    rename_a_parameter()

NAMES = [name for feature in tf_internals.inventory() for name in feature.names]
REPAIRED = ("_connect_to_cluster", "Server.__init__", "_string_to_components")
"""Names that a repair has changed, which stays when the probe gives up."""
HOOKED = [name for name in NAMES if name.module.startswith("tensorflow") and not name.path.endswith(REPAIRED)]
originals = [vars(name.owner).get(name.attribute) for name in HOOKED]

from tfscale.trainer.measure import measure  # noqa: E402
from tfscale.trainer.probe.entry.attach import probe  # noqa: E402

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])

import keras  # noqa: E402

with strategy.scope():
    model = keras.Sequential([keras.layers.Dense(2)])
    model.compile("sgd", "mse")


def train() -> None:
    model.fit(np.ones((64, 4), "float32"), np.ones((64, 2), "float32"), batch_size=8, epochs=2, verbose=0)


def kept() -> list[int]:
    """Return how much the probe remembers of its program."""
    recorder, assembler = probe().recorder, probe()._assembler
    recorder.graphs.forget()
    return [
        len(recorder.eager.spans),
        len(recorder.sites.all),
        len(recorder.graphs._writer._unwritten),
        len(assembler._parts),
        len(probe()._activities._ended),
    ]


with measure(sys.argv[2]):
    train()
patched = [(patch.owner, patch.attribute, patch.original) for patch in probe()._patches._patches]
before = kept()
if how == "failed":
    probe().fail(RuntimeError("broken on purpose"))
    before = kept()
    train()
print(
    json.dumps(
        {
            "changed": [
                name.path
                for name, original in zip(HOOKED, originals, strict=True)
                if vars(name.owner).get(name.attribute) is not original
            ],
            "patched": len(patched),
            "grown": [now - then for now, then in zip(kept(), before, strict=True)] if how == "failed" else [],
            "keras": [
                model.evaluate.__func__ is not vars(keras.Model).get("evaluate"),
                "evaluate" in vars(keras.Model),
            ],
        }
    )
)
