"""Variables that the agent has set for this process, also if the script has removed them from `os.environ`."""

from __future__ import annotations

import os
import sys


def agent_variable(name: str) -> str | None:
    """Return a variable of the agent, None where no agent has started this process."""
    way_in = sys.modules.get("tfscale_way_in")
    kept = getattr(way_in, "variables", None)
    return (kept or os.environ).get(name)
