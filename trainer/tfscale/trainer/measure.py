"""Measurement without any agent: the same records, as JSON lines in a file (docs/reference/schema.md).

    from tfscale.trainer.measure import measure          # before the model is built

    with measure("steps.jsonl"):
        model.fit(data)

    model.fit(data, callbacks=[measure_callback("steps.jsonl")])   # the same for one `fit`

Under an agent, which measures without them, both write their file beside the agent's reports.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tfscale.core.cluster.task import MASTER, Role
from tfscale.trainer.probe.entry.attach import attach, probe
from tfscale.trainer.probe.entry.imports import after_import
from tfscale.trainer.probe.process.agent_variables import agent_variable
from tfscale.trainer.probe.report.json_lines import Lines

if not agent_variable("TFSCALE_REPORT"):
    after_import(attach)


@contextmanager
def measure(path: str | Path) -> Iterator[None]:
    """Write the steps of this block to `path`. Raises OSError when the file cannot be made.

    Functions that were traced before this module was imported carry no stamps and are not measured.
    """
    lines = Lines(Path(path), _task())
    probe().add_sink(lines)
    try:
        yield
    finally:
        probe().remove_sink(lines)


def measure_callback(path: str | Path) -> Any:
    """Return a callback of the program's Keras; it writes the steps of one `fit` to `path`."""
    keras = sys.modules.get("tf_keras") or sys.modules["keras"]
    measuring = measure(path)

    class MeasureCallback(keras.callbacks.Callback):  # type: ignore[misc, name-defined]
        def on_train_begin(self, _: Any = None) -> None:
            measuring.__enter__()

        def on_train_end(self, _: Any = None) -> None:
            measuring.__exit__(None, None, None)

    return MeasureCallback()


def _task() -> str:
    """Return this process's task by TF_CONFIG, `worker:0` without."""
    task = json.loads(os.environ.get("TF_CONFIG", "{}")).get("task", {})
    role = task.get("type", "worker")
    return f"{Role.CHIEF if role == MASTER else role}:{task.get('index', 0)}"
