"""Which repair goes into which module, once that has been imported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tfscale.trainer.compat import legacy_keras, reconnection, spellings
from tfscale.trainer.compat.keras3 import executions, multi_worker, optimizers, parameter_server, variables


def repair(module: Any) -> None:
    """Repair a module; one that needs no repair stays as it is."""
    for each in _REPAIRS.get(module.__name__, ()):
        each(module)


_REPAIRS: dict[str, tuple[Callable[[Any], None], ...]] = {
    "keras._tf_keras.keras.callbacks": (spellings.callbacks,),
    "keras._tf_keras.keras.layers": (spellings.layers,),
    "keras._tf_keras.keras.utils": (spellings.utils,),
    "keras.callbacks": (spellings.callbacks,),
    "keras.layers": (spellings.layers,),
    "keras.src.backend.tensorflow.core": (variables.repair,),
    "keras.src.backend.tensorflow.optimizer": (optimizers.repair,),
    "keras.src.backend.tensorflow.trainer": (multi_worker.repair, executions.repair, parameter_server.repair),
    "keras.src.metrics.metric": (spellings.metrics,),
    "keras.src.optimizers.loss_scale_optimizer": (optimizers.repair_loss_scale, spellings.loss_scale),
    "keras.utils": (spellings.utils,),
    "tensorflow": (spellings.strategies, reconnection.repair),
    "tf_keras.src.engine.data_adapter": (legacy_keras.repair,),
}
