"""Ends that are followed by a restart, by each policy."""

from __future__ import annotations

import pytest
from tfscale.agent.recovery.restart_rule import why_left
from tfscale.core.cluster.recovery_policy import RestartPolicy
from tfscale.core.failure.task_failure import Failure, failure_of
from tfscale.core.records.task_status import Exit, TaskState, TaskStatus

ALWAYS, ON_FAILURE, NEVER, EXIT_CODE = RestartPolicy


def ended(code: int | None = None, signal: int | None = None, log: tuple[str, ...] = ()) -> Failure:
    failure = failure_of("worker:1", TaskStatus(TaskState.EXITED, 1, 1, exit=Exit(code, signal, 5.0, log=log)), 5.0)
    return failure or Failure("worker:1", 1, 1, 5.0, code, signal)


LOST = failure_of("worker:1", TaskStatus(TaskState.LOST, 1, 1), 5.0)
PEER_GONE = ended(1, log=("tensorflow...UnavailableError: Collective ops is aborted by: worker 2",))


@pytest.mark.parametrize(
    ("policy", "cause", "is_restarted"),
    [
        (ALWAYS, ended(0), True),
        (ALWAYS, ended(1), True),
        (ALWAYS, LOST, True),
        (ALWAYS, None, True),
        (ON_FAILURE, ended(0), False),
        (ON_FAILURE, ended(1), True),
        (ON_FAILURE, ended(signal=9), True),
        (ON_FAILURE, LOST, True),
        (ON_FAILURE, None, True),
        (NEVER, ended(1), False),
        (NEVER, ended(signal=9), False),
        (NEVER, LOST, False),
        (NEVER, None, False),
        (EXIT_CODE, ended(0), False),
        (EXIT_CODE, ended(1), False),
        (EXIT_CODE, ended(41), False),
        (EXIT_CODE, ended(42), True),
        (EXIT_CODE, ended(43), False),
        (EXIT_CODE, ended(127), False),
        (EXIT_CODE, ended(128), True),
        (EXIT_CODE, ended(137), True),
        (EXIT_CODE, ended(255), True),
        (EXIT_CODE, ended(signal=9), True),
        (EXIT_CODE, ended(signal=15), True),
        (EXIT_CODE, LOST, True),
        (EXIT_CODE, PEER_GONE, True),
        (EXIT_CODE, None, True),
    ],
)
def test_each_policy_restarts_after_its_ends(policy: RestartPolicy, cause: Failure | None, is_restarted: bool) -> None:
    assert (why_left(policy, cause) == "") is is_restarted


def test_the_reason_of_a_permanent_exit_is_told() -> None:
    assert why_left(EXIT_CODE, ended(3)) == "exit code 3 is permanent by the policy ExitCode"
