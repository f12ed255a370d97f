"""Scripts that ask for GPUs, get none, train nothing for that reason and end as if all were well."""

from __future__ import annotations

import functools
import inspect
import sys
from types import FrameType
from typing import Any

from tfscale.core.log_clues import UNTRAINED

_asked_in_vain = False


def watch(tensorflow: Any) -> None:
    """Watch whether the script asks for GPUs on a host without any; TensorFlow's own question is not counted."""
    for module, name in (
        (tensorflow.config, "list_physical_devices"),
        (tensorflow.config, "list_logical_devices"),
        (tensorflow.config.experimental, "list_physical_devices"),
        (tensorflow.config.experimental, "list_logical_devices"),
        (tensorflow.test, "gpu_device_name"),
        (tensorflow.test, "is_gpu_available"),
    ):
        setattr(module, name, _noticed(getattr(module, name)))


def _noticed(ask: Any) -> Any:
    @functools.wraps(ask)
    def asked(*args: Any, **kwargs: Any) -> Any:
        global _asked_in_vain
        answer = ask(*args, **kwargs)
        about_gpus = "gpu" in ask.__name__ or "GPU" in (*args, *kwargs.values())
        _asked_in_vain = _asked_in_vain or (about_gpus and not answer and _is_of_script(inspect.currentframe()))
        return answer

    return asked


def _is_of_script(frame: FrameType | None) -> bool:
    """Return whether the script itself called the function of this frame, and not a library."""
    caller = frame.f_back.f_globals.get("__name__", "") if frame is not None and frame.f_back is not None else ""
    return caller.partition(".")[0] not in ("tfscale", "tensorflow", "keras", "tf_keras")


def sentence() -> str | None:
    """Return the line about a script that ended without a step, None unless it asked for a GPU in vain."""
    if not _asked_in_vain or hasattr(sys, "last_value"):  # Python sets this where an error ends the script.
        return None
    return (
        f"{UNTRAINED}the script asks for GPUs, and TensorFlow finds none on this host: see whether nvidia-smi does, "
        "and install tensorflow[and-cuda]; or write tf.distribute.MirroredStrategy() without the question, which "
        "trains on the CPU where there is no GPU"
    )
