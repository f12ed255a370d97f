"""Declarations of faults: what is done to which cluster, and what must be so afterwards."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from faults.trial import Trial

RUNS = r"^running"


@dataclass(frozen=True)
class Setup:
    """The cluster to which something is done."""

    workers: int = 1
    hosts: bool = False
    """True where each agent has a host of its own, so that tasks may move."""
    spares: int = 0
    """One if there is a spare; needs `hosts`."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Variables of the agents, and so of their tasks."""
    flags: tuple[str, ...] = ()
    """More flags of all agents."""
    table: str = ""
    """More lines of the cluster file."""
    program: str = "counted_steps"
    before: Callable[[Trial], None] | None = None
    """Deed before anything is started."""
    prefix: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Words before the command of single agents, by task; `{folder}` is the trial's folder."""
    starts: bool = True
    """False where it is the fault itself that starts, or does not start, the agents."""
    ready: str = RUNS
    """Pattern of the state that all tasks have when the fault happens; empty: it does not wait."""
    has_console: bool = True
    patience: float = 120.0
    """Seconds until all are in that state."""

    @property
    def is_shared(self) -> bool:
        """True where several faults may follow each other in one cluster."""
        return (
            self.starts
            and self.ready == RUNS
            and self.before is None
            and not self.hosts
            and self.program == "counted_steps"
        )


@dataclass(frozen=True)
class Expectation:
    """State of the cluster after the fault. All patterns are searched."""

    words: str
    """Sentence for the table."""
    states: Mapping[str, str] = field(default_factory=dict)
    """Pattern of the state of each task, as `Trial.states` writes it."""
    lives: tuple[str, ...] = ()
    """Tasks whose process must be the one of before."""
    ended: tuple[str, ...] = ()
    """Tasks that must not have been started again."""
    is_new: tuple[str, ...] = ()
    """Tasks whose process must be another one than before, and make steps."""
    agents: Mapping[str, str] = field(default_factory=dict)
    """Pattern of the exit status of agents that must have ended."""
    log: Mapping[str, str] = field(default_factory=dict)
    """Pattern of what the agent of a task must have written to stderr."""
    said: str = ""
    """Pattern of the console's first sentence 3 s later."""
    one_generation: bool = False
    """True where all tasks must run in one generation."""
    most_lost: int | None = None
    """Most steps that the training may lose; None: not judged."""
    within: float = 30.0
    """Seconds until all of it holds."""


@dataclass(frozen=True)
class Fault:
    """One row of the table."""

    name: str
    does: str
    """Clause about what is done."""
    expected: Expectation
    act: Callable[[Trial], str | None]
    """Deed. What it returns is told as seen. Raises `Unexpected` where something has followed that must not."""
    setup: Setup = field(default_factory=Setup)
    _: KW_ONLY
    once: Callable[[Trial], None] = lambda _: None
    """Function that waits until the deed may be done. What is measured and said begins after it."""
    missing: Callable[[], str] = lambda: ""
    """Function that returns why it cannot be done here; nothing where it can."""
    quick: bool = False
    """True for those that a test runs."""


class Unexpected(Exception):
    """Something that has followed, and must not. The text says what."""
