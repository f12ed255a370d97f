"""Attempt of a task that this process is."""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Identity:
    """Variables that the agent has set in the environment; `socket` is the path at which it listens."""

    socket: str
    task: str
    generation: int
    attempt: int

    @classmethod
    def from_environment(cls) -> Identity:
        """Read the variables of the agent.

        Raises KeyError or ValueError where no agent, or one of another version, has set them.
        """
        return cls(
            socket=os.environ["TFSCALE_REPORT"],
            task=os.environ["TFSCALE_TASK"],
            generation=int(os.environ["TFSCALE_GENERATION"]),
            attempt=int(os.environ["TFSCALE_ATTEMPT"]),
        )
