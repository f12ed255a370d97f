"""Graphs that leave the process or are rewritten by others: in these the op of the stamps does nothing, or is removed.

A GraphDef with our op cannot be loaded or converted elsewhere, and nobody would read its rows.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from typing import Any

import tensorflow as tf
from tfscale.trainer.probe.rows import ring, staging_area
from tfscale.trainer.tf_internals import INDEPENDENT, RegisterPFor, context

_SUFFIX = "_without_stamps"
_WRITE = (staging_area.OP, ring.OP)


def write_nothing(graph_def: Any) -> set[str]:
    """Replace the ops of a GraphDef that write rows by empty ops; return the functions with such ops."""
    _empty_all(graph_def.node)
    return {each.signature.name for each in graph_def.library.function if _empty_all(each.node_def)}


def without_stamps(graph_def: Any) -> Any:
    """Return a GraphDef whose stamps do nothing.

    Its changed functions get new names, because this process may load the graph again.
    """
    changed, before = write_nothing(graph_def), set[str]()
    while changed - before:
        before = set(changed)
        changed |= {each.signature.name for each in graph_def.library.function if _called(each.node_def) & changed}
    for function in graph_def.library.function:
        _rename(function.node_def, changed)
        if function.signature.name in changed:
            function.signature.name += _SUFFIX
    for gradient in graph_def.library.gradient:
        gradient.function_name += _SUFFIX * (gradient.function_name in changed)
        gradient.gradient_func += _SUFFIX * (gradient.gradient_func in changed)
    _rename(graph_def.node, changed)
    return graph_def


def strip_functions() -> bool:
    """Replace the ops that write rows in all functions of this process; return whether there were any.

    From now on the functions may run in processes that do not know the op.
    """
    if context.context()._context_handle is None:
        return False
    stripped = [_strip(name) for name in context.context().list_function_names()]
    return any(stripped)


def _strip(name: str) -> bool:
    function = context.context().get_function_def(name)
    if is_changed := _empty_all(function.node_def):
        context.context().remove_function(name)
        context.context().add_function_def(function)
    return is_changed


def _functions_of(node: Any) -> Iterator[Any]:
    for attribute in node.attr.values():
        if attribute.HasField("func"):
            yield attribute.func
        yield from attribute.list.func if attribute.HasField("list") else ()


def _called(nodes: Iterable[Any]) -> set[str]:
    return {each for node in nodes for each in (node.op, *(function.name for function in _functions_of(node)))}


def _rename(nodes: Iterable[Any], changed: set[str]) -> None:
    for node in nodes:
        node.op += _SUFFIX * (node.op in changed)
        for function in _functions_of(node):
            function.name += _SUFFIX * (function.name in changed)


def _empty_all(nodes: Iterable[Any]) -> bool:
    """Empty the ops that write rows; return whether there were any."""
    writing = [node for node in nodes if node.op in _WRITE and INDEPENDENT in node.attr]
    for node in writing:
        _empty(node)
    return bool(writing)


def _empty(node: Any) -> None:
    """Replace an op by a no-op that waits for the same ops."""
    before = dict.fromkeys("^" + source.lstrip("^").partition(":")[0] for source in node.input)
    node.op = "NoOp"
    node.input[:] = before
    node.attr.clear()


@functools.cache
def leave_out_when_vectorized() -> None:
    """Let `tf.vectorized_map` leave stamps out: it turns a whole batch into one op, and has no rule for a stamp."""
    RegisterPFor(ring.OP)(lambda _: tf.no_op())
