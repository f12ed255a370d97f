"""What this process is set to before it loads gRPC, which asks the environment once and starts threads."""

from __future__ import annotations

import ctypes
import os

_M_ARENA_MAX = -8
"""Of glibc's malloc.h."""

# In the older way no message passes from thread to thread, which for a thousand agents is near a third of the cost.
os.environ.setdefault("GRPC_EXPERIMENTS", "-event_engine_client")
# A heap for each thread keeps what each once needed: with a thousand agents 40 MB of 370. Other C libraries have one.
if hasattr(libc := ctypes.CDLL(None), "mallopt"):
    libc.mallopt(_M_ARENA_MAX, 1)
