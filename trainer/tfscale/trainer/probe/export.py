"""Functions with stamps in them can be exported: a SavedModel takes along the variables that they refer to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tensorflow.python.trackable.base import Trackable
from tfscale.trainer.probe.ring import Ring


@contextmanager
def exportable(root: Any, ring: Ring | None) -> Iterator[None]:
    """In this block `root` owns the ring's variables, as the export of a traced function demands of all it uses."""
    if ring is None or not isinstance(root, Trackable):
        yield
        return
    names = {f"_tfscale_{name}": variable for name, variable in ring.variables.items()}
    for name, variable in names.items():
        root._track_trackable(variable, name, overwrite=True)
    try:
        yield
    finally:
        for name in names:
            del root._self_unconditional_dependency_names[name]
        root._self_unconditional_checkpoint_dependencies = [
            reference for reference in root._self_unconditional_checkpoint_dependencies if reference.name not in names
        ]
