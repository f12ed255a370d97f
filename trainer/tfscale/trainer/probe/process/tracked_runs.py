"""Runs of experiment trackers to which this process logs, for a console that adds its numbers to them."""

from __future__ import annotations

import os
import sys
from typing import Any


def tracked_runs() -> tuple[str, ...]:
    """Return `wandb:ENTITY/PROJECT/ID` and `mlflow:ID`, by the environment or by the library where it is loaded."""
    try:
        found = _wandb(sys.modules.get("wandb")), _mlflow(sys.modules.get("mlflow.tracking.fluent"))
        return tuple(filter(None, found))
    except Exception:
        # Whatever these libraries have become keeps nobody from training.
        return ()


def _wandb(library: Any) -> str:
    run = getattr(library, "run", None)
    entity, project, identity = (
        os.environ.get(f"WANDB_{name}") or getattr(run, attribute, None) or ""
        for name, attribute in (("ENTITY", "entity"), ("PROJECT", "project"), ("RUN_ID", "id"))
    )
    return f"wandb:{entity}/{project}/{identity}" if identity else ""


def _mlflow(library: Any) -> str:
    identity = os.environ.get("MLFLOW_RUN_ID")
    if not identity and library is not None:
        # Asked by its own function, MLflow knows the runs of the thread that asks.
        stacks = library._active_run_stack.get_all_thread_values().values()
        identity = next((stack[0].info.run_id for stack in stacks if stack), "")
    return f"mlflow:{identity}" if identity else ""
