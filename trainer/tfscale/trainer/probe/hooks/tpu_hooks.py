"""One line that says what to do where no TPU answers, before the long trace of TensorFlow's error."""

from __future__ import annotations

import sys
from typing import Any

from tfscale.trainer import tf_internals
from tfscale.trainer.probe.hooks.patches import Method, Patches

_EXPLAINED = "_tfscale_explained"
"""Attribute of an error that was explained: one may pass twice, as the start of the system makes a resolver."""


def install(patches: Patches) -> None:
    """Print why there is no TPU, before TensorFlow raises its own error."""

    def attempt(method: Method, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(*args, **kwargs)
        except Exception as error:
            if not hasattr(error, _EXPLAINED):
                print(f"tfscale: {_sentence(error)}", file=sys.stderr)
                setattr(error, _EXPLAINED, True)
            raise

    hooks = {"TPUClusterResolver.__init__": attempt, "initialize_tpu_system_impl": attempt}
    patches.put(tf_internals.TPU, hooks)


def _sentence(error: Exception) -> str:
    reason = (str(error).strip() or type(error).__name__).splitlines()[0]
    return (
        f"no TPU to train on ({reason}): run this on a TPU VM with TPUClusterResolver(tpu='local'), name the TPU that "
        "is to be used, or take another strategy"
    )
