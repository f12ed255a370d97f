"""Versions of the schema that agents, consoles, recordings and exports share, and the type of its dates."""

from __future__ import annotations

from typing import Annotated

SCHEMA_VERSION = 1
"""Version of the stream, the recording and the export; rises when a reader of the older would misread the newer."""
OLDEST_SCHEMA = 1
"""Oldest version that is still spoken: agents and consoles of neighbouring versions speak the lower of both."""
Time = Annotated[float, "Unix seconds on the clock of the agent's host"]
"""Type of a date, as distinct from other numbers."""
