"""Rule by which a policy starts a task again after its end, or leaves it. Pure."""

from __future__ import annotations

from tfscale.core.cluster.recovery_policy import RestartPolicy
from tfscale.core.failure.task_failure import Failure

_PERMANENT = range(1, 128)
_PREEMPTED = 42
"""Exit code with which TensorFlow's preemption handler asks for a restart."""


def why_left(policy: RestartPolicy, cause: Failure | None) -> str:
    """Return why the policy does not start this task again, empty where it does. `failure` is None for a hang.

    The exit code of a task that ended because its peer was gone says nothing, and the peer's own end is unknown until
    it is reported. Such an end is retried, as a death by a signal is.
    """
    if policy is RestartPolicy.NEVER:
        return "the policy of its role is Never"
    if policy is RestartPolicy.ALWAYS or cause is None or cause.signal is not None or cause.code is None:
        return ""
    if cause.code == 0:
        return "it has ended well"
    if policy is RestartPolicy.EXIT_CODE and _is_permanent(cause):
        return f"exit code {cause.code} is permanent by the policy ExitCode"
    return ""


def _is_permanent(cause: Failure) -> bool:
    return cause.code in _PERMANENT and cause.code != _PREEMPTED and not cause.followed
