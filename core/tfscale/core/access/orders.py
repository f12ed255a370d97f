"""Table of the orders that a console gives: key, word on the command line, question and least role of each.

An order whose subject is one task or one host, and that neither starts nor stops anything, needs no call of its own:
the call `Order` carries its name and its argument to the agent, whose part is a row in `agent/life/carried_orders.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

from tfscale.core.access.caller_role import CallerRole
from tfscale.core.access.sent_signals import signal_named

CARRIER = "Order"
"""Call that carries the orders without a call of their own."""


class Subject(Enum):
    """Thing that an order is about."""

    GANG = auto()
    """Task with all tasks that train with it: the lead's agent decides which tasks those are."""
    TASK = auto()
    """One task: its own agent is asked."""
    HOST = auto()
    """A host that is cordoned: the lead's agent is asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One order of an operator."""

    name: str
    """Word on the command line."""
    subject: Subject
    key: str
    """Key of the screens, as Textual names it."""
    hint: str
    """Words for the key."""
    summary: str = ""
    """Clause of `--help`; empty for an order that is a form of another one on the command line."""
    call: str = CARRIER
    """Call of the agent's service."""
    role: CallerRole = CallerRole.OPERATOR
    """Least role of the caller."""
    argument: str = ""
    """Name of the value beside the subject, as `--help` calls it; empty for an order without a value."""
    check: Callable[[str], object] = str
    """Function that raises UsageError for a value that every agent refuses."""
    question: str = ""
    """Question of the screen before the order, if one line of input answers it."""
    usual: str = ""
    """Argument that the screen proposes."""

    @property
    def words(self) -> str:
        """Arguments on the command line."""
        return f"{'HOST' if self.subject is Subject.HOST else 'TASK'} {self.argument}".rstrip()

    @property
    def is_carried(self) -> bool:
        """True for an order without a call of its own."""
        return self.call == CARRIER


_ROWS = (
    Order(
        name="restart",
        subject=Subject.GANG,
        call="Restart",
        key="r",
        hint="restart; asks first",
        summary="restart a task and those that train with it",
    ),
    Order(
        name="stop",
        subject=Subject.GANG,
        call="Stop",
        key="x",
        hint="stop; asks first",
        summary="stop a task and those that train with it",
    ),
    Order(
        name="start",
        subject=Subject.GANG,
        call="Start",
        key="S",
        hint="start; asks first",
        summary="start a task that was stopped",
    ),
    Order(
        name="restart_without",
        subject=Subject.GANG,
        call="Restart",
        key="W",
        hint="restart without its host; asks first",
    ),
    Order(
        name="uncordon",
        subject=Subject.HOST,
        key="U",
        hint="let tasks be placed on a cordoned host again; asks for which",
        summary="have tasks be placed on a host again",
        question="Uncordon which host? Tasks may be placed there again.",
    ),
    Order(
        name="profile",
        subject=Subject.TASK,
        call="Profile",
        key="P",
        hint="TensorFlow's profile of some seconds; asks for how many",
        summary="take TensorFlow's profile of a task",
    ),
    Order(
        name="stack",
        subject=Subject.TASK,
        call="Stack",
        role=CallerRole.OBSERVER,
        key="b",
        hint="the Python stacks of its threads, also while it is stuck",
        summary="print where the threads of a task stand",
    ),
    Order(
        name="signal",
        subject=Subject.TASK,
        key="I",
        hint="send its process a signal, as schedulers do to have a program save; asks for which",
        summary="send the process of a task a signal, such as USR1",
        argument="NAME",
        check=signal_named,
        question="Send which signal to the process of these tasks? A program that does not handle it ends.",
        usual="USR1",
    ),
)
ORDERS = {order.name: order for order in _ROWS}
"""Every order by its name."""
