"""Identity of this process: its task's attempt, and its part in the attempt."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from tfscale.trainer.probe.process.agent_variables import agent_variable


@dataclass(frozen=True, slots=True)
class Identity:
    """Variables that the agent has set in the environment; `socket` is the path where the agent listens."""

    socket: str
    task: str
    generation: int
    attempt: int
    part: int = 0
    """Milliseconds from the host's boot until this process began to report; a later process has more."""

    def begun(self) -> Identity:
        """Return the identity of a process that begins to report now, as the newest part."""
        return replace(self, part=max(int(time.monotonic() * 1000), self.part + 1))

    @classmethod
    def from_environment(cls) -> Identity:
        """Read the variables of the agent.

        Raises ValueError where no agent, or one of another version, has set them.
        """
        found = [agent_variable(f"TFSCALE_{name}") for name in ("REPORT", "TASK", "GENERATION", "ATTEMPT")]
        if None in found:
            raise ValueError("the environment has no variables of an agent, or those of another version")
        socket, task, generation, attempt = map(str, found)
        return cls(socket, task, int(generation), int(attempt))
