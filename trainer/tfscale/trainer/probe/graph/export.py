"""Export of functions with stamps in them: a SavedModel writes no rows, as nobody would read them."""

from __future__ import annotations

from typing import Any

from tfscale.trainer.probe.rows import ring, staging_area
from tfscale.trainer.tf_internals import INDEPENDENT

_WRITE = (staging_area.OP, ring.OP)


def write_nothing(exported: Any) -> None:
    """Turn the ops of a MetaGraphDef that write rows into ops that do nothing."""
    for function in exported.graph_def.library.function:
        for node in function.node_def:
            if node.op in _WRITE and INDEPENDENT in node.attr:
                _empty(node)


def _empty(node: Any) -> None:
    """Turn an op into one that does nothing, after the same ops as before."""
    before = dict.fromkeys("^" + source.lstrip("^").partition(":")[0] for source in node.input)
    node.op = "NoOp"
    node.input[:] = before
    node.attr.clear()
