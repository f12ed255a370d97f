"""Functions with stamps in them can be exported: a SavedModel writes no rows, as nobody would read them."""

from __future__ import annotations

from tensorflow.core.framework.node_def_pb2 import NodeDef
from tensorflow.core.protobuf.meta_graph_pb2 import MetaGraphDef
from tfscale.trainer.probe.apart import MARK
from tfscale.trainer.probe.rows import ring, staging_area

_WRITE = (staging_area.OP, ring.OP)


def write_nothing(exported: MetaGraphDef) -> None:
    """Turn the ops that write rows into ops that do nothing."""
    for function in exported.graph_def.library.function:
        for node in function.node_def:
            if node.op in _WRITE and MARK in node.attr:
                _empty(node)


def _empty(node: NodeDef) -> None:
    """Keep the order in which it came, and nothing else."""
    before = dict.fromkeys("^" + source.lstrip("^").partition(":")[0] for source in node.input)
    node.op = "NoOp"
    node.input[:] = before
    node.attr.clear()
