"""Settings of this process for gRPC, which reads the environment once, at its import."""

from __future__ import annotations

import ctypes
import os

_M_ARENA_MAX = -8
"""Number of the parameter in glibc's malloc.h."""

# Without gRPC's event engine no message passes from thread to thread: near a third of the cost of a thousand agents.
os.environ.setdefault("GRPC_EXPERIMENTS", "-event_engine_client")
# With a heap a thread, freed memory stays with each: 40 MB of 370 with a thousand agents. Only glibc has several heaps.
if hasattr(libc := ctypes.CDLL(None), "mallopt"):
    libc.mallopt(_M_ARENA_MAX, 1)
