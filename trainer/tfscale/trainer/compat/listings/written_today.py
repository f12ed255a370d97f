"""Names of TensorFlow 1 and of older Keras that no repair can bring back, each with its present replacement."""

from __future__ import annotations

import sys

_TODAY = {
    "tf.contrib": "tf.contrib ended with TensorFlow 1: its strategies are tf.distribute.MirroredStrategy, "
    "MultiWorkerMirroredStrategy and ParameterServerStrategy",
    "tf.estimator": "Estimators ended with TensorFlow 2.16: build the model with tf.keras under strategy.scope(), "
    "and train it with fit",
    "tf.enable_eager_execution": "TensorFlow 2 is eager from the start: leave the line out",
    "tf.enable_v2_behavior": "TensorFlow 2 behaves so from the start: leave the line out",
    "tf.keras.utils.multi_gpu_model": "multi_gpu_model was removed: make and compile the model under "
    "tf.distribute.MirroredStrategy().scope()",
    "tf.train.experimental.enable_mixed_precision_graph_rewrite": "the rewrite of graphs was removed: write "
    "tf.keras.mixed_precision.set_global_policy('mixed_float16') before the model is built",
}
_PREFIXES = (("keras._tf_keras.keras", "tf.keras"), ("keras.api", "tf.keras"), ("tf_keras.api", "tf.keras"))


def instead_of(module: str, name: str) -> str | None:
    """Return a line with the replacement of a name that a module of TensorFlow or Keras lacks, else None."""
    if (owner := _public(module)) is None:
        return None
    path = f"{owner}.{name}"
    if path in _TODAY:
        return _TODAY[path]
    if _is_in_version_1(path):
        return f"{path} ended with TensorFlow 1: write {path.replace('tf.', 'tf.compat.v1.', 1)}, or Keras's way"
    return None


def _public(module: str) -> str | None:
    """Return the public name of a module of TensorFlow or Keras, None for any other module."""
    for prefix, written in _PREFIXES:
        if module == prefix or module.startswith(f"{prefix}."):
            return written + module[len(prefix) :].replace(".v2", "")
    root, _, rest = module.partition(".")
    if root in ("keras", "tf_keras"):
        return f"tf.keras.{rest}".rstrip(".")
    if root != "tensorflow":
        return None
    rest = rest.removeprefix("_api.v2").lstrip(".")
    return f"tf.{rest}".rstrip(".")


def _is_in_version_1(path: str) -> bool:
    # The script has loaded it: one of its modules lacks the name.
    found = getattr(getattr(sys.modules.get("tensorflow"), "compat", None), "v1", None)
    for part in path.split(".")[1:]:
        found = getattr(found, part, None)
    return found is not None
