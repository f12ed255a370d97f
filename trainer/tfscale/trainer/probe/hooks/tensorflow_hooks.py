"""Probe's hooks in TensorFlow: methods that every step calls.

`tf_internals.py` lists them by feature. In `fit` Python calls them once a trace, so they leave stamps in the graph; in
eager loops it calls them at each step, and they take the time themselves.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from typing import Any

import tensorflow as tf
from tfscale.core.cluster.strategy import STRATEGIES
from tfscale.core.records.probe_status import ActivityKind
from tfscale.trainer import tf_internals
from tfscale.trainer.probe.graph.distribution import distribution_of
from tfscale.trainer.probe.graph.export import leave_out_when_vectorized, without_stamps, write_nothing
from tfscale.trainer.probe.graph.recorder import Recorder
from tfscale.trainer.probe.hooks.patches import Method, Patches
from tfscale.trainer.probe.process.activities import CHECKPOINT, COMPILE, Activities
from tfscale.trainer.probe.process.called_python import CalledPython
from tfscale.trainer.probe.rows.spans import Distribution

_LOOPS_OF_DATA = ("reduce()", "Dataset.scan()")
"""Transformations of data sets whose function may be a step: `for batch in data` in a graph becomes one of these. They
run in this process, all others perhaps in a tf.data service."""


def install(
    patches: Patches,
    recorder: Recorder,
    activities: Activities,
    python: CalledPython,
    on_strategy: Callable[[Any], None],
) -> None:
    """Put the hooks in place; must happen before the first graph is traced.

    `on_strategy` is called with each strategy that the script makes.
    """
    _hook_tracing(patches, recorder)
    _hook_other_processes(patches, recorder)
    _hook_strategies(patches, recorder, on_strategy)
    _hook_input(patches, recorder)
    _hook_called_python(patches, python)
    _hook_reductions(patches, recorder)
    _hook_training(patches, recorder)
    _hook_activities(patches, activities)


def _hook_tracing(patches: Patches, recorder: Recorder) -> None:
    def build(method: Method, name: str, python_func: Method, *args: Any, **kwargs: Any) -> Any:
        def traced(*inputs: Any, **more: Any) -> Any:
            # TensorFlow 2.12 puts there what AutoGraph has made of the script's function; others leave python_func.
            outputs = itself().__wrapped__(*inputs, **more)
            recorder.graphs.write_stamps(tf.compat.v1.get_default_graph())
            return outputs

        itself: Any = weakref.ref(traced)
        return method(name, tf.__internal__.decorator.make_decorator(python_func, traced), *args, **kwargs)

    def build_meta_graph(
        method: Method, root: Any, signatures: Any, options: Any, meta_graph_def: Any, *args: Any, **kwargs: Any
    ) -> Any:
        built = method(root, signatures, options, meta_graph_def, *args, **kwargs)
        with recorder.switch.own_work():
            write_nothing(meta_graph_def.graph_def)
        return built

    def as_graph_def(method: Method, *args: Any, **kwargs: Any) -> Any:
        graph_def = method(*args, **kwargs)
        with recorder.switch.own_work():
            return without_stamps(graph_def)
        return graph_def

    hooks: dict[str, Method] = {
        "func_graph_from_py_func": build,
        "_build_meta_graph": build_meta_graph,
        "Graph.as_graph_def": as_graph_def,
    }
    recorder.graphs.stamps_graphs = patches.put(tf_internals.GRAPHS, hooks)
    if recorder.graphs.stamps_graphs:
        leave_out_when_vectorized()


def _hook_other_processes(patches: Patches, recorder: Recorder) -> None:
    """Leave stamps out of graphs that may run in processes without the probe: TensorFlow there lacks their op."""

    def set_server_def(method: Method, *args: Any, **kwargs: Any) -> Any:
        with recorder.switch.own_work():
            recorder.graphs.reach_others()
        return method(*args, **kwargs)

    def wrap(method: Method, wrapper: Any, func: Any, transformation_name: str, *args: Any, **kwargs: Any) -> None:
        if transformation_name in _LOOPS_OF_DATA:
            method(wrapper, func, transformation_name, *args, **kwargs)
            return
        with recorder.switch.apart():
            method(wrapper, func, transformation_name, *args, **kwargs)

    patches.put(tf_internals.OTHER_PROCESSES, {"Context.set_server_def": set_server_def})
    patches.put(tf_internals.DATA_FUNCTIONS, {"StructuredFunctionWrapper.__init__": wrap})


def _hook_strategies(patches: Patches, recorder: Recorder, on_strategy: Callable[[Any], None]) -> None:
    def made(method: Method, strategy: Any, *args: Any, **kwargs: Any) -> None:
        method(strategy, *args, **kwargs)
        with recorder.switch.own_work():
            if distribution_of(strategy).strategy is not None:
                on_strategy(strategy)

    def run(method: Method, strategy: Any, fn: Any, *args: Any, **kwargs: Any) -> Any:
        return recorder.run(lambda: method(strategy, fn, *args, **kwargs), distribution_of(strategy), _code_of(fn))

    if not patches.put(tf_internals.RUNS, {"StrategyBase.__init__": made, "StrategyBase.run": run}):
        recorder.switch.disable()


def _code_of(function: Any) -> Hashable:
    """Return an identity of a function's lines, equal at each of their executions."""
    code: Hashable = getattr(getattr(function, "python_function", function), "__code__", None)
    return code or type(function).__qualname__


def _codes_of(function: Any, depth: int = 3) -> Hashable:
    """Return an identity of a function's lines and of the functions that it captures: Keras wraps several alike."""
    plain = getattr(function, "python_function", function)
    inside = [cell.cell_contents for cell in getattr(plain, "__closure__", None) or () if _is_filled(cell)]
    callables = [each for each in inside if hasattr(each, "__code__")] if depth else []
    return _code_of(function), *(_codes_of(each, depth - 1) for each in callables)


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _hook_input(patches: Patches, recorder: Recorder) -> None:
    def get_next(method: Method, *args: Any, **kwargs: Any) -> Any:
        return recorder.input(lambda: method(*args, **kwargs))

    def get_value(method: Method, optional: Any, *args: Any, **kwargs: Any) -> Any:
        return recorder.taken_out(lambda: method(optional, *args, **kwargs), optional)

    patches.put(tf_internals.INPUT, dict.fromkeys((name.path for name in tf_internals.INPUT.names), get_next))
    patches.put(tf_internals.OPTIONALS, {"_OptionalImpl.get_value": get_value})


def _hook_called_python(patches: Patches, python: CalledPython) -> None:
    def call(method: Method, *args: Any) -> Any:
        return python.timed(lambda: method(*args))

    patches.put(tf_internals.INPUT_PYTHON, {"FuncRegistry.__call__": call})


def _hook_reductions(patches: Patches, recorder: Recorder) -> None:
    def distribution(extended: Any) -> Distribution:
        return distribution_of(extended._container_strategy())

    def batch_reduce(method: Method, extended: Any, op: Any, pairs: Any, options: Any) -> Any:
        handed = [pair[0] for pair in pairs]
        return recorder.reduction(lambda: method(extended, op, pairs, options), handed, distribution(extended))

    def reduce(method: Method, extended: Any, op: Any, value: Any, *args: Any, **kwargs: Any) -> Any:
        return over_replicas(lambda: method(extended, op, value, *args, **kwargs), extended, value)

    def gather(method: Method, extended: Any, value: Any, *args: Any, **kwargs: Any) -> Any:
        return over_replicas(lambda: method(extended, value, *args, **kwargs), extended, value, gathers=True)

    def over_replicas(call: Callable[[], Any], extended: Any, value: Any, gathers: bool = False) -> Any:
        distributed = distribution(extended)
        return recorder.reduction(call, value, distributed, gathers) if distributed.replicas > 1 else call()

    hooks: dict[str, Method] = {"_batch_reduce_to": batch_reduce, "_reduce_to": reduce}
    split: dict[str, bool] = {}
    for row in filter(lambda row: row.extended, STRATEGIES):
        kind = row.extended.partition(":")[2]
        own = {f"{kind}.{method}": hooks[method] for method in row.reductions}
        split[row.name] = patches.put(tf_internals.REDUCTIONS_OF[row.name], own)
    others = patches.put(tf_internals.REDUCTIONS, {"StrategyExtendedV2._batch_reduce_to": batch_reduce})
    patches.put(tf_internals.GATHERS, {"StrategyExtendedV2._gather_to": gather})
    recorder.splits = lambda distribution: split.get(distribution.strategy or "", others)


def _hook_training(patches: Patches, recorder: Recorder) -> None:
    def gradient(method: Method, tape: Any, target: Any, sources: Any, *args: Any, **kwargs: Any) -> Any:
        return recorder.gradient(lambda: method(tape, target, sources, *args, **kwargs), sources)

    def graph_gradient(method: Method, *args: Any, **kwargs: Any) -> Any:
        recorder.note_training()
        return method(*args, **kwargs)

    def call(method: Method, function: Any, *args: Any, **kwargs: Any) -> Any:
        if not (function._jit_compile or recorder.graphs.leaves_stamps_out):
            return method(function, *args, **kwargs)
        distribution, key = distribution_of(tf.distribute.get_strategy()), _codes_of(function)
        return recorder.run(lambda: method(function, *args, **kwargs), distribution, key, whole=True)

    patches.put(tf_internals.GRADIENTS, {"GradientTape.gradient": gradient})
    patches.put(tf_internals.GRAPH_GRADIENTS, {"_GradientsHelper": graph_gradient})
    patches.put(tf_internals.XLA, {"Function.__call__": call})


def _hook_activities(patches: Patches, activities: Activities) -> None:
    def during(kind: ActivityKind) -> Method:
        def hook(method: Method, *args: Any, **kwargs: Any) -> Any:
            with activities.during(kind):
                return method(*args, **kwargs)

        return hook

    def save(method: Method, *args: Any, **kwargs: Any) -> Any:
        with activities.writing():
            return method(*args, **kwargs)

    checkpoints = {
        "TrackableSaver.save": save,
        "TrackableSaver.restore": during(CHECKPOINT),
        "save_and_return_nodes": during(CHECKPOINT),
    }
    patches.put(tf_internals.COMPILATION, {"_create_concrete_function": during(COMPILE)})
    patches.put(tf_internals.CHECKPOINTS, checkpoints)
