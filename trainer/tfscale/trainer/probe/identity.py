"""Which attempt of which task this process is."""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Identity:
    """As the agent said in the environment; `socket` is where it listens."""

    socket: str
    task: str
    generation: int
    attempt: int

    @classmethod
    def from_environment(cls) -> Identity:
        """Raises KeyError or ValueError when no agent, or one of another version, set the variables."""
        return cls(
            socket=os.environ["TFSCALE_REPORT"],
            task=os.environ["TFSCALE_TASK"],
            generation=int(os.environ["TFSCALE_GENERATION"]),
            attempt=int(os.environ["TFSCALE_ATTEMPT"]),
        )
