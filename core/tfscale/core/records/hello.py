"""First words of a process that reports to its agent."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Hello:
    """First words of a process to its agent."""

    schema_version: int
    task: str
    generation: int
    attempt: int
    pid: int
    stack_signal: int | None
    """Signal on which the process writes the stacks of its Python threads."""
    trains: bool = False
    """True if the process has made steps since the agent refused its reports."""
