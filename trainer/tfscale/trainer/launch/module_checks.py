"""Checks of a command line by the modules that it names, without TensorFlow and before any task is started.

What TensorFlow, the devices or the data have to be asked for is refused by the task, which sees them.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from tfscale.core.errors import UsageError
from tfscale.trainer.launch.catalogue import Entry
from tfscale.trainer.launch.plan import Plan, keras_of
from tfscale.trainer.launch.stand_ins import stand_ins


def check_parts(plan: Plan) -> None:
    """Check the options of the strategy, the values of the techniques and the batch. Raises UsageError."""
    with stand_ins():
        _check_options(plan)
        for entry, text in plan.techniques:
            module, value = parsed(entry, text)
            if plan.global_batch is None and hasattr(module, "check_batch"):
                _check_batch(module, value, plan.batch or plan.program.constants["BATCH"])


def parsed(entry: Entry, text: str) -> tuple[ModuleType, Any]:
    """Return the module of a technique and the value that `text` stands for. Raises UsageError."""
    module = entry.load()
    try:
        return module, module.parse(text)
    except ValueError as error:
        raise UsageError(f"--with {entry.name}={text}: {error}") from None


def _check_options(plan: Plan) -> None:
    module = plan.strategy.load()
    if hasattr(module, "check_options"):
        try:
            module.check_options(keras_of(os.environ), **plan.options)
        except ValueError as error:
            raise UsageError(str(error)) from None


def _check_batch(module: ModuleType, value: Any, batch: int) -> None:
    try:
        module.check_batch(value, batch)
    except ValueError as error:
        raise UsageError(f"--with: {error}") from None


def check_own(program: Entry, words: Sequence[str], tasks: Mapping[str, int]) -> None:
    """Check the words of a program that has a command line of its own; `--help` prints it and exits.

    Raises UsageError.
    """
    with stand_ins():
        own_settings(program.load(), words, tasks)


def own_settings(module: ModuleType, words: Sequence[str], tasks: Mapping[str, int]) -> argparse.Namespace:
    """Return the settings of a program that has a command line of its own. Raises UsageError."""
    settings: argparse.Namespace = module.parse(words)
    if hasattr(module, "check"):
        module.check(settings, tasks["worker"])
    return settings
