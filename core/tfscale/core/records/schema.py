"""Versions of the schema that agents, consoles, recordings and exports share, and the type of its dates."""

from __future__ import annotations

from typing import Annotated

SCHEMA_VERSION = 1
"""Version of the stream, the recording and the export; it rises when an older reader would misread newer data."""
OLDEST_SCHEMA = 1
"""Oldest version that is still understood: two sides use the lower of their versions."""
Time = Annotated[float, "Unix seconds on the clock of the agent's host"]
"""Type of a date, as distinct from other numbers."""
