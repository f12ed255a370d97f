"""Repairs of each module of TensorFlow and Keras."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tfscale.trainer import tf_internals
from tfscale.trainer.compat import reconnection, removed_names, tf_keras_datasets, tf_keras_logs
from tfscale.trainer.compat.keras3 import (
    across_workers,
    on_servers,
    optimizers,
    saved_models,
    shared_places,
    steps_per_execution,
    variables,
    written_by_callbacks,
)
from tfscale.trainer.compat.listings import (
    checkpoint_names,
    claimed_places,
    device_names,
    last_error,
    master_role,
    no_training,
    without_chief,
)
from tfscale.trainer.feature import Feature

Repair = Callable[[Any], None]


def repair(module: Any, on_fault: Callable[[str], None]) -> None:
    """Repair a module that has just been imported; most modules need no repair.

    A repair with an unexpected name is left out, and `on_fault` is called with a note about it. A script that ends
    for want of this repair has the fault in the line at its end.
    """
    for feature, put in REPAIRS:
        if not (feature.is_due(module.__name__) and tf_internals.applies(feature)):
            continue
        if (fault := feature.fault()) is None:
            put(module)
        else:
            _leave_out(feature, fault, on_fault)
    if module.__name__.startswith("keras") and any(map(tf_internals.is_keras_2, ("keras.src", "keras"))):
        return
    for put in _PUBLIC.get(module.__name__, ()):
        put(module)


def look_for_absent(library: str, on_fault: Callable[[str], None]) -> None:
    """Report the hooks and repairs whose modules are missing from `keras` or `tf_keras`, imported whole."""
    for feature in tf_internals.never_imported(library):
        if (fault := feature.fault()) is not None:
            _leave_out(feature, fault, on_fault)


def _leave_out(feature: Feature, fault: str, on_fault: Callable[[str], None]) -> None:
    on_fault(feature.note(fault))
    if feature.symptom:
        last_error.unrepaired[feature.symptom] = fault


REPAIRS: tuple[tuple[Feature, Repair], ...] = (
    (tf_internals.ATOMIC_VARIABLES, variables.repair),
    (tf_internals.CENTRAL_STATES, variables.repair_aggregation),
    (tf_internals.LOOKUPS, variables.repair_lookup),
    (tf_internals.OPTIMIZER_BUILD, optimizers.repair),
    (tf_internals.OPTIMIZER_UPDATES, optimizers.repair_updates),
    (tf_internals.SYMBOLIC_BUILD, across_workers.repair_symbolic_build),
    (tf_internals.REPLICA_METRICS, across_workers.repair_reduce_per_replica),
    (tf_internals.SHARDED_PREDICT, across_workers.repair_predict),
    (tf_internals.EXECUTIONS, steps_per_execution.repair),
    (tf_internals.KERAS_ON_SERVERS, on_servers.repair),
    (tf_internals.LOSS_SCALE, optimizers.repair_loss_scale),
    (tf_internals.BACKUP, written_by_callbacks.repair_backup),
    (tf_internals.CSV_FILES, written_by_callbacks.repair_csv),
    (tf_internals.EVENTS, written_by_callbacks.repair_events),
    (tf_internals.EXPORT_ARCHIVE, saved_models.repair_archive),
    (tf_internals.SAVED_MODELS, saved_models.repair),
    (tf_internals.MADE_FOLDERS, saved_models.repair_folders),
    (tf_internals.CHECKPOINT_CALLBACK, checkpoint_names.repair_callback),
    (tf_internals.CHECKPOINT_MODEL, checkpoint_names.repair_model),
    (tf_internals.EXPORTS, saved_models.repair_export),
    (tf_internals.SHARED_PLACES, shared_places.watch),
    (tf_internals.RECONNECTION, reconnection.repair),
    (tf_internals.DEVICE_NAMES, device_names.repair_names),
    *((feature, tf_keras_logs.repair) for feature in tf_internals.LOGS_KERAS_2),
    *((feature, tf_keras_datasets.repair) for feature in tf_internals.DATASETS_KERAS_2),
)
"""Repairs with the names that each needs, in the order of their application."""

_PUBLIC: dict[str, tuple[Repair, ...]] = {
    "keras": (removed_names.keras,),
    "keras._tf_keras.keras": (removed_names.keras,),
    "keras._tf_keras.keras.callbacks": (removed_names.callbacks,),
    "keras._tf_keras.keras.layers": (removed_names.layers,),
    "keras._tf_keras.keras.utils": (removed_names.utils,),
    "keras.callbacks": (removed_names.callbacks,),
    "keras.layers": (removed_names.layers,),
    "keras.mixed_precision": (removed_names.mixed_precision,),
    "keras.optimizers": (removed_names.optimizers,),
    "keras.src.metrics.metric": (removed_names.metrics,),
    "keras.src.optimizers.loss_scale_optimizer": (removed_names.loss_scale,),
    "keras.utils": (removed_names.utils,),
    "tensorflow": (
        removed_names.strategies,
        device_names.refuse_absent,
        master_role.repair,
        claimed_places.repair,
        checkpoint_names.repair_search,
        without_chief.repair,
        no_training.watch,
    ),
}
"""Names to add and calls to watch, all of them public. Keras 2 has all the names of Keras that are added."""
