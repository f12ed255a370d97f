"""Functions that TensorFlow has traced in this process."""

from __future__ import annotations

from typing import Any

from tfscale.trainer.tf_internals import TRACED_FUNCTIONS, context


class TracedFunctions:
    """Functions that are traced after this object was made."""

    def __init__(self) -> None:
        self._before = set(_names())

    def new(self) -> list[Any] | None:
        """Return the FunctionDefs traced since this object was made; None if this TensorFlow hides them."""
        if TRACED_FUNCTIONS.fault() is not None:
            return None
        return [context.context().get_function_def(name) for name in _names() if name not in self._before]


def _names() -> list[str]:
    return [] if TRACED_FUNCTIONS.fault() is not None else list(context.context().list_function_names())
