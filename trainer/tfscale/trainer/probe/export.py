"""Functions with stamps in them can be exported: a SavedModel takes along the variables that they refer to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tensorflow.core.protobuf.meta_graph_pb2 import MetaGraphDef
from tensorflow.python.trackable.base import Trackable
from tfscale.trainer.probe.ring import MARK, Ring


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


def make_loadable(exported: MetaGraphDef) -> None:
    """Let functions with stamps be loaded: the op that counts rows would demand to know its variable's shape.

    In an exported function it only reads the counter, so that all rows go to the same place.
    """
    for function in exported.graph_def.library.function:
        counters = [node for node in function.node_def if node.op == "ResourceCountUpTo" and MARK in node.attr]
        for node in counters:
            node.op = "ReadVariableOp"
            node.attr["dtype"].CopyFrom(node.attr.pop("T"))
            del node.attr["limit"]
        renamed = {f"{node.name}:output:0": f"{node.name}:value:0" for node in counters}
        for node in function.node_def:
            for index, source in enumerate(node.input):
                node.input[index] = renamed.get(source, source)
