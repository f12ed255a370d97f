"""SIGTERM ends a MultiWorkerMirrored task again.

TensorFlow (seen with 2.21.0) installs a handler for SIGTERM with its coordination service, which does nothing but tell
a PreemptionCheckpointHandler. A script without one trains on until it is killed, so that each stop and each restart of
the gang would take the whole grace time.
"""

from __future__ import annotations

import ctypes
import functools
import signal
from typing import Any

from tensorflow.python.distribute.failure_handling import failure_handling

_used = False


def watch_preemption_handlers() -> None:
    """Notice whether the script makes a PreemptionCheckpointHandler: then SIGTERM stays TensorFlow's."""
    kind = failure_handling.PreemptionCheckpointHandler
    make = kind.__init__

    @functools.wraps(make)
    def made(self: Any, *args: Any, **kwargs: Any) -> None:
        global _used
        _used = True
        make(self, *args, **kwargs)

    kind.__init__ = made


def end_on_sigterm() -> None:
    """Give SIGTERM back its default, unless the script or a PreemptionCheckpointHandler wants it. From any thread."""
    if not _used and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        # Python's own signal.signal works in the main thread only, which is training.
        ctypes.CDLL(None).signal(int(signal.SIGTERM), ctypes.c_void_p(0))
