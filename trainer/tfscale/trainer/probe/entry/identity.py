"""Attempt of a task that this process is."""

from __future__ import annotations

from dataclasses import dataclass

from tfscale.trainer.probe.entry.agent_variables import agent_variable


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

        Raises ValueError where no agent, or one of another version, has set them.
        """
        found = [agent_variable(f"TFSCALE_{name}") for name in ("REPORT", "TASK", "GENERATION", "ATTEMPT")]
        if None in found:
            raise ValueError("the environment has no variables of an agent, or those of another version")
        socket, task, generation, attempt = map(str, found)
        return cls(socket, task, int(generation), int(attempt))
