"""Where no TPU answers, what TensorFlow says ends in a long trace: one line before it says what to do."""

from __future__ import annotations

import sys
from typing import Any

from tensorflow.python.distribute.cluster_resolver.tpu import tpu_cluster_resolver
from tensorflow.python.tpu import tpu_strategy_util
from tfscale.trainer.probe.hooks import Method, wrap

_TOLD = "_tfscale_told"
"""Marks an error that passes here twice: the system's start may make a resolver of its own."""


def install() -> None:
    """Tell why there is no TPU; TensorFlow's own error goes on its way."""

    def attempt(method: Method, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(*args, **kwargs)
        except Exception as error:
            if not hasattr(error, _TOLD):
                print(f"tfscale: {_sentence(error)}", file=sys.stderr)
                setattr(error, _TOLD, True)
            raise

    wrap(tpu_cluster_resolver.TPUClusterResolver, "__init__", attempt)
    wrap(tpu_strategy_util, "initialize_tpu_system_impl", attempt)


def _sentence(error: Exception) -> str:
    reason = (str(error).strip() or type(error).__name__).splitlines()[0]
    return (
        f"no TPU to train on ({reason}): run this on a TPU VM with TPUClusterResolver(tpu='local'), name the TPU that "
        "is to be used, or take another strategy"
    )
