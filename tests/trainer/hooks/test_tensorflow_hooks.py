"""The hooks in real TensorFlow: each can be missing alone, and all are taken back when the probe gives up."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.tensorflow
PROGRAM = Path(__file__).with_name("hooked.py")


def run(how: str, folder: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return what the program printed, and the lines of its measurement."""
    command = [sys.executable, PROGRAM, how, folder / "lines.jsonl"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert ran.returncode == 0, ran.stderr[-3000:]
    lines = [json.loads(line) for line in (folder / "lines.jsonl").read_text().splitlines()]
    return json.loads(ran.stdout.splitlines()[-1]), [line for line in lines if line["type"] == "frame"]


def test_a_missing_name_disables_its_hook_alone(tmp_path: Path) -> None:
    left, frames = run("missing", tmp_path)
    probe = [frame["probe"] for frame in frames if frame["probe"]][-1]
    assert probe["state"] == "measuring" and probe["strategy"] == "MirroredStrategy"
    assert probe["compiled_stamps"] is (shutil.which(os.environ.get("CC", "cc").split()[0]) is not None)
    mirrored, multi_worker, checkpoints = sorted(probe["warnings"])
    assert checkpoints.startswith("shows less: checkpoints not shown: TensorFlow ")
    assert " has no TrackableSaver.restore; install TensorFlow " in checkpoints
    assert mirrored.startswith("does not fit: steps of MirroredStrategy not split: TensorFlow ")
    assert " has another MirroredExtended._batch_reduce_to than (" in mirrored
    # It inherits the method.
    assert multi_worker.startswith("does not fit: steps of MultiWorkerMirroredStrategy not split: ")
    batches = [batch for frame in frames for batch in frame["steps"] if batch["subject"] == "worker:0"]
    assert [number for batch in batches for number in batch["sequence"]] == list(range(16))
    assert all(batch["input"] and not batch["reduce"] for batch in batches)
    assert "TrackableSaver.save" not in left["changed"] and "StrategyBase.run" in left["changed"]


def test_a_probe_that_has_failed_leaves_nothing_behind(tmp_path: Path) -> None:
    left, _ = run("failed", tmp_path)
    assert left["patched"] > 30
    assert left["changed"] == []
    assert left["keras"] == [True, False]
    assert left["grown"] == [0, 0, 0, 0, 0]


WITHOUT_RUNS = """
import sys, types
from tensorflow.python.distribute import distribute_lib
original = distribute_lib.StrategyBase.run
distribute_lib.StrategyBase.run = lambda self, function, *args, **kwargs: original(self, function, *args, **kwargs)
import keras, numpy
from tfscale.trainer.probe.entry.attach import attach, probe
reports = []
probe().report_to(lambda: types.SimpleNamespace(refused=None, send=reports.append, close=lambda _: None))
attach("tensorflow")
attach("keras.src.optimizers.base_optimizer")
model = keras.Sequential([keras.layers.Dense(2)])
model.compile("sgd", "mse")
model.fit(numpy.ones((8, 4)), numpy.ones((8, 2)), verbose=0)
probe().flush()
print(*[report.status.warnings[0] for report in reports if report.status][:1])
"""


def test_a_probe_that_cannot_measure_steps_reports_why() -> None:
    command = [sys.executable, "-c", WITHOUT_RUNS]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
    assert ran.stdout.startswith("does not fit: steps not measured: TensorFlow ")
    assert ran.stdout.endswith(" has another StrategyBase.run than (self, fn); install TensorFlow 2.21\n")


AS_IN_2_12 = """
from tensorflow.python.autograph.core.converter import ConversionOptions
from tensorflow.python.autograph.impl.api import converted_call
from tensorflow.python.framework import func_graph
from tensorflow.python.util import tf_decorator

def build(name, python_func, args, kwargs, *more, **others):
    _, original = tf_decorator.unwrap(python_func)

    def convert(*args, **kwargs):
        return converted_call(original, args, kwargs, options=ConversionOptions(recursive=True, user_requested=True))

    converted = tf_decorator.make_decorator(original, convert)
    return built(name, tf_decorator.rewrap(python_func, original, converted), args, kwargs, *more, **others)

built, func_graph.func_graph_from_py_func = func_graph.func_graph_from_py_func, build
import tensorflow as tf
from tfscale.trainer.probe.entry.attach import attach, probe
attach("tensorflow")
print(probe().recorder.graphs.stamps_graphs)

def total(numbers):
    found = 0.0
    for number in numbers:
        found += number
    return found

def called(*args):
    return called.__wrapped__(*args)

called = tf_decorator.make_decorator(total, called)
graph = func_graph.func_graph_from_py_func("total", called, (tf.constant([1.0, 2.0]),), {})
print(*[op.type for op in graph.get_operations() if "While" in op.type])
"""


def test_a_function_that_autograph_converts_in_the_midst_of_the_trace_is_the_converted_one(tmp_path: Path) -> None:
    script = tmp_path / "as_in_2_12.py"  # AutoGraph needs the source
    script.write_text(AS_IN_2_12)
    ran = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=240, check=False)
    assert ran.stdout.split() == ["True", "StatelessWhile"], ran.stderr


RAISING = """
import types
import tensorflow
from tensorflow.python.distribute import distribute_lib
from tfscale.trainer.compat import repairs
from tfscale.trainer.probe.entry.attach import attach, probe
from tfscale.trainer.probe.hooks import tpu_hooks

def fail(*_, **__):
    raise RuntimeError("broken on purpose")

repairs.repair = tpu_hooks.install = fail
reports = []
probe().report_to(lambda: types.SimpleNamespace(refused=None, send=reports.append, close=lambda _: None))
attach("tensorflow")
probe().flush()
status = [report.status for report in reports if report.status][-1]
print(status.state, status.message, *status.warnings, sep="\\n")
print(hasattr(distribute_lib.StrategyBase.run, "__wrapped__"))
"""


def test_a_repair_that_raises_is_told_and_a_hook_that_raises_ends_the_measuring() -> None:
    ran = subprocess.run([sys.executable, "-c", RAISING], capture_output=True, text=True, timeout=240, check=True)
    assert ran.stdout.splitlines() == [
        "disabled",
        "the probe failed and measures no more: RuntimeError('broken on purpose')",
        "does not fit: the repairs of tensorflow failed: RuntimeError('broken on purpose')",
        "False",
    ]
