"""How gRPC shall read its sockets: it asks the environment once, when it is loaded, so that this comes before it."""

from __future__ import annotations

import os

# In the older way no message passes from thread to thread, which for a thousand agents is near a third of the cost.
os.environ.setdefault("GRPC_EXPERIMENTS", "-event_engine_client")
