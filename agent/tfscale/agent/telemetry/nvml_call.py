"""Call of a function of NVML that a GPU or driver may not support."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def ask(nvml: Any, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function of NVML and return its result, None if this GPU or driver does not support it."""
    try:
        return function(*arguments)
    except nvml.NVMLError:
        return None
