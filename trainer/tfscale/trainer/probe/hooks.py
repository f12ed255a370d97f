"""Where TensorFlow is touched: the methods through which every step passes.

    Strategy.run                       the replica function, and with it the updates of variables; `fit` calls it
                                       without any strategy too
    Iterator.get_next ...              the next batch, distributed or not
    Extended._batch_reduce_to          gradients, under both Keras versions and in custom loops
    Extended._reduce_to, _gather_to    metrics, losses, and the count of replicas that still have data
    GradientTape.gradient              tells training from evaluation
    Function.__call__                  where XLA compiles a whole step, which can be timed from outside only
    tracing_compilation, func_graph    graphs being traced
    Saver, saved_model                 checkpoints

Under `fit` Python passes through these once a trace, so they leave stamps in the graph; in eager loops it passes at
each step, and they take the time themselves.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from typing import Any

import tensorflow as tf
from tensorflow.python.checkpoint import checkpoint
from tensorflow.python.data.ops import iterator_ops
from tensorflow.python.distribute import (
    collective_all_reduce_strategy,
    distribute_lib,
    input_lib,
    mirrored_strategy,
    one_device_strategy,
    parameter_server_strategy,
)
from tensorflow.python.eager import backprop
from tensorflow.python.eager.polymorphic_function import polymorphic_function, tracing_compilation
from tensorflow.python.framework import func_graph, ops
from tensorflow.python.saved_model import save
from tfscale.core.records import ActivityKind
from tfscale.trainer.probe.activities import CHECKPOINT, COMPILE, Activities
from tfscale.trainer.probe.export import write_nothing
from tfscale.trainer.probe.program import program_of
from tfscale.trainer.probe.recorder import Recorder
from tfscale.trainer.probe.spans import Program

Method = Callable[..., Any]


def install(recorder: Recorder, activities: Activities, on_strategy: Callable[[Any], None]) -> None:
    """Put the hooks in place; must happen before the first graph is traced.

    `on_strategy` is called with each strategy that the script has made.
    """
    _hook_strategies(recorder, on_strategy)
    _hook_input(recorder)
    _hook_reductions(recorder)
    _hook_training(recorder)
    _hook_activities(recorder, activities)


def wrap(owner: Any, name: str, hook: Method) -> None:
    """Replace a method or function by `hook`, which gets the original before its arguments."""
    method = getattr(owner, name)

    @functools.wraps(method)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return hook(method, *args, **kwargs)

    setattr(owner, name, wrapper)


def _hook_strategies(recorder: Recorder, on_strategy: Callable[[Any], None]) -> None:
    def made(method: Method, strategy: Any, *args: Any, **kwargs: Any) -> None:
        method(strategy, *args, **kwargs)
        if not isinstance(strategy, distribute_lib._DefaultDistributionStrategy):
            with recorder.own_work():
                on_strategy(strategy)

    def run(method: Method, strategy: Any, fn: Any, *args: Any, **kwargs: Any) -> Any:
        return recorder.run(lambda: method(strategy, fn, *args, **kwargs), program_of(strategy), _place(fn))

    wrap(distribute_lib.StrategyBase, "__init__", made)
    wrap(distribute_lib.StrategyBase, "run", run)


def _place(function: Any) -> Hashable:
    """What stays the same where the same lines of a program are run again."""
    code: Hashable = getattr(getattr(function, "python_function", function), "__code__", None)
    return code or type(function).__qualname__


def _hook_input(recorder: Recorder) -> None:
    def get_next(method: Method, *args: Any, **kwargs: Any) -> Any:
        return recorder.input(lambda: method(*args, **kwargs))

    for kind in (input_lib.DistributedIteratorBase, iterator_ops.OwnedIterator):
        wrap(kind, "get_next", get_next)
        wrap(kind, "get_next_as_optional", get_next)
    wrap(iterator_ops.OwnedIterator, "_next_internal", get_next)


def _hook_reductions(recorder: Recorder) -> None:
    def program(extended: Any) -> Program:
        return program_of(extended._container_strategy())

    def batch_reduce(method: Method, extended: Any, op: Any, pairs: Any, options: Any) -> Any:
        handed = [pair[0] for pair in pairs]
        return recorder.reduction(lambda: method(extended, op, pairs, options), handed, program(extended))

    def reduce(method: Method, extended: Any, op: Any, value: Any, *args: Any, **kwargs: Any) -> Any:
        def call() -> Any:
            return method(extended, op, value, *args, **kwargs)

        return recorder.reduction(call, value, program(extended)) if extended._num_replicas_in_sync > 1 else call()

    def gather(method: Method, extended: Any, value: Any, *args: Any, **kwargs: Any) -> Any:
        def call() -> Any:
            return method(extended, value, *args, **kwargs)

        return recorder.reduction(call, value, program(extended)) if extended._num_replicas_in_sync > 1 else call()

    default = distribute_lib.StrategyExtendedV2
    mirrored = mirrored_strategy.MirroredExtended
    multi_worker = collective_all_reduce_strategy.CollectiveAllReduceExtended
    central = parameter_server_strategy.ParameterServerStrategyExtended
    for kind in (default, mirrored, central):
        wrap(kind, "_batch_reduce_to", batch_reduce)
    for kind in (mirrored, multi_worker, central, one_device_strategy.OneDeviceExtended):
        wrap(kind, "_reduce_to", reduce)
    wrap(default, "_gather_to", gather)


def _hook_training(recorder: Recorder) -> None:
    def gradient(method: Method, *args: Any, **kwargs: Any) -> Any:
        return recorder.gradient(lambda: method(*args, **kwargs))

    def call(method: Method, function: Any, *args: Any, **kwargs: Any) -> Any:
        if not function._jit_compile or not tf.executing_eagerly():
            return method(function, *args, **kwargs)
        program = program_of(distribute_lib.get_strategy())
        return recorder.run(lambda: method(function, *args, **kwargs), program, _place(function))

    wrap(backprop.GradientTape, "gradient", gradient)
    wrap(polymorphic_function.Function, "__call__", call)


def _hook_activities(recorder: Recorder, activities: Activities) -> None:
    def during(kind: ActivityKind) -> Method:
        def hook(method: Method, *args: Any, **kwargs: Any) -> Any:
            with activities.during(kind):
                return method(*args, **kwargs)

        return hook

    def save_checkpoint(method: Method, *args: Any, **kwargs: Any) -> Any:
        with activities.writing():
            return method(*args, **kwargs)

    def build(method: Method, name: str, python_func: Method, *args: Any, **kwargs: Any) -> Any:
        def traced(*inputs: Any, **more: Any) -> Any:
            outputs = python_func(*inputs, **more)
            recorder.traced(ops.get_default_graph())
            return outputs

        return method(name, functools.wraps(python_func)(traced), *args, **kwargs)

    def build_meta_graph(
        method: Method, root: Any, signatures: Any, options: Any, meta_graph_def: Any, *args: Any, **kwargs: Any
    ) -> Any:
        built = method(root, signatures, options, meta_graph_def, *args, **kwargs)
        with recorder.own_work():
            write_nothing(meta_graph_def)
        return built

    wrap(func_graph, "func_graph_from_py_func", build)
    wrap(tracing_compilation, "_create_concrete_function", during(COMPILE))
    wrap(checkpoint.TrackableSaver, "save", save_checkpoint)
    wrap(checkpoint.TrackableSaver, "restore", during(CHECKPOINT))
    wrap(save, "save_and_return_nodes", during(CHECKPOINT))
    wrap(save, "_build_meta_graph", build_meta_graph)
