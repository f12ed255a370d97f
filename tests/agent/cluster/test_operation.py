"""Commands under way, and the agents that do not answer them."""

from __future__ import annotations

from tfscale.agent.cluster.journal import Intent
from tfscale.agent.cluster.operation import Operation
from tfscale.core.cluster.task import Role, Task

FIRST, SECOND = Task(Role.WORKER, 1), Task(Role.WORKER, 2)


async def test_an_agent_that_answers_again_is_not_the_one_that_is_missed() -> None:
    operation = Operation(Intent("restart", ("worker:1", "worker:2"), 3, True, ""), (FIRST, SECOND))
    assert operation.first_missing() is None
    for task in (FIRST, SECOND):
        operation.unreachable(task, f"the agent of {task} does not answer")
    missing = operation.first_missing()
    assert missing is not None and missing[0] == FIRST and missing[1] >= 0
    operation.answered(FIRST)
    missing = operation.first_missing()
    assert missing is not None and missing[0] == SECOND
