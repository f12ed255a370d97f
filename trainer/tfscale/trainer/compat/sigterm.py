"""Default meaning of SIGTERM, restored in MultiWorkerMirrored tasks.

The coordination service of TensorFlow (seen with 2.21.0) installs a handler for SIGTERM which only notifies a
PreemptionCheckpointHandler. Without such a handler a script trains on until it is killed, so that each stop and each
restart of all tasks would take the whole grace time.
"""

from __future__ import annotations

import ctypes
import functools
import signal
from typing import Any

import tensorflow as tf

_has_preemption_handler = False


def watch_preemption_handlers() -> None:
    """Watch for a PreemptionCheckpointHandler of the script: then TensorFlow keeps its handler of SIGTERM."""
    kind = tf.distribute.experimental.PreemptionCheckpointHandler
    make = kind.__init__

    @functools.wraps(make)
    def made(self: Any, *args: Any, **kwargs: Any) -> None:
        global _has_preemption_handler
        _has_preemption_handler = True
        make(self, *args, **kwargs)

    kind.__init__ = made


def end_on_sigterm() -> None:
    """Restore the default of SIGTERM, unless the script or a PreemptionCheckpointHandler uses it; from any thread."""
    if not _has_preemption_handler and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        # Python's own signal.signal works in the main thread only, which is training.
        ctypes.CDLL(None).signal(int(signal.SIGTERM), ctypes.c_void_p(0))
