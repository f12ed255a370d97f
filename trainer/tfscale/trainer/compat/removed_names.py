"""Removed names of `tf.distribute` and Keras that books and older tutorials use.

Each is added where it is absent, with its old meaning. TensorFlow 2.21.0 lacks `experimental_run_v2` and
`experimental_make_numpy_dataset`, Keras 3.15.1 lacks the others. The strategies and options under
`tf.distribute.experimental` still exist.
"""

from __future__ import annotations

import functools
import types
from typing import Any

from tfscale.trainer.compat.keras3.dataset_creator import DatasetCreator
from tfscale.trainer.compat.side_car import SidecarEvaluator


def strategies(tensorflow: Any) -> None:
    """Add `Strategy.experimental_run_v2` of TensorFlow 2.0 and 2.1, and `experimental_make_numpy_dataset`."""

    def experimental_run_v2(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self.run(*args, **kwargs)

    def experimental_make_numpy_dataset(self: Any, numpy_input: Any) -> Any:  # noqa: ARG001
        return tensorflow.data.Dataset.from_tensor_slices(numpy_input)

    _add(tensorflow.distribute.Strategy, "experimental_run_v2", experimental_run_v2)
    _add(tensorflow.distribute.Strategy, "experimental_make_numpy_dataset", experimental_make_numpy_dataset)


def metrics(metric: Any) -> None:
    """Add `Metric.reset_states`, which nearly every custom loop before 2022 calls."""

    def reset_states(self: Any) -> None:
        self.reset_state()

    _add(metric.Metric, "reset_states", reset_states)


def loss_scale(module: Any) -> None:
    """Add `get_scaled_loss` and `get_unscaled_gradients` of a custom loop with mixed precision.

    Keras 3 divides the gradients when it applies them, so they must not be divided before.
    """

    def get_scaled_loss(self: Any, loss: Any) -> Any:
        return self.scale_loss(loss)

    def get_unscaled_gradients(self: Any, gradients: Any) -> Any:  # noqa: ARG001
        return gradients

    _add(module.LossScaleOptimizer, "get_scaled_loss", get_scaled_loss)
    _add(module.LossScaleOptimizer, "get_unscaled_gradients", get_unscaled_gradients)


def mixed_precision(module: Any) -> None:
    """Add `keras.mixed_precision.experimental` of TensorFlow 2.1 to 2.3."""

    def loss_scale_optimizer(optimizer: Any, loss_scale: Any = "dynamic") -> Any:
        if loss_scale == "dynamic":
            return module.LossScaleOptimizer(optimizer)
        # A fixed scale is one that is never raised.
        return module.LossScaleOptimizer(optimizer, initial_scale=float(loss_scale), dynamic_growth_steps=2**31 - 1)

    names = types.SimpleNamespace(
        Policy=module.DTypePolicy,
        set_policy=module.set_global_policy,
        global_policy=module.global_policy,
        LossScaleOptimizer=loss_scale_optimizer,
    )
    _add(module, "experimental", names)


def optimizers(module: Any) -> None:
    """Add `keras.optimizers.experimental` of TensorFlow 2.9 to 2.12, where the present optimizers were new."""
    _add(module, "experimental", module)


def keras(module: Any) -> None:
    """Add the schedules of `keras.experimental`."""
    schedules = module.optimizers.schedules
    names = types.SimpleNamespace(CosineDecay=schedules.CosineDecay, CosineDecayRestarts=schedules.CosineDecayRestarts)
    _add(module, "experimental", names)


def layers(module: Any) -> None:
    """Add `keras.layers.experimental`: preprocessing layers and the synchronised normalisation."""
    normalisation = functools.partial(module.BatchNormalization, synchronized=True)
    _add(module, "experimental", types.SimpleNamespace(preprocessing=module, SyncBatchNormalization=normalisation))


def callbacks(module: Any) -> None:
    """Add `keras.callbacks.experimental.BackupAndRestore`."""
    _add(module, "experimental", types.SimpleNamespace(BackupAndRestore=module.BackupAndRestore))


def utils(module: Any) -> None:
    """Add `keras.utils.experimental.DatasetCreator` and `keras.utils.SidecarEvaluator`."""
    _add(module, "experimental", types.SimpleNamespace(DatasetCreator=DatasetCreator))
    _add(module, "SidecarEvaluator", SidecarEvaluator)


def _add(owner: Any, name: str, value: Any) -> None:
    if not hasattr(owner, name):
        setattr(owner, name, value)
