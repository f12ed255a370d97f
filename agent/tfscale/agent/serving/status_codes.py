"""Status codes with which the agent's services answer errors."""

from __future__ import annotations

from grpc import StatusCode
from tfscale.agent.cluster.gang import Busy, GangError, Leaving, NotLed, Unknown
from tfscale.agent.file_thread import DiskHangs
from tfscale.agent.network.relayed_connections import Foreign, RelaysEnough, Unreached
from tfscale.agent.on_demand.profile_requests import ProfileBusy, ProfileTimeout, ProfileUnavailable
from tfscale.agent.on_demand.stack_requests import StackTimeout, StackUnavailable
from tfscale.core.errors import TfscaleError, UsageError
from tfscale.core.wire.fields import WireError


class Stranger(TfscaleError):
    """A request that is meant for another agent, or that names no agent."""


class Unsupported(TfscaleError):
    """A request that this agent cannot serve: by its version, its cluster file or its place in the cluster."""


_CODES: dict[type[Exception], StatusCode] = {
    Stranger: StatusCode.NOT_FOUND,
    Unsupported: StatusCode.FAILED_PRECONDITION,
    Foreign: StatusCode.NOT_FOUND,
    Unreached: StatusCode.FAILED_PRECONDITION,
    RelaysEnough: StatusCode.RESOURCE_EXHAUSTED,
    UsageError: StatusCode.INVALID_ARGUMENT,
    WireError: StatusCode.INVALID_ARGUMENT,
    DiskHangs: StatusCode.FAILED_PRECONDITION,
    Busy: StatusCode.ABORTED,
    Leaving: StatusCode.UNAVAILABLE,
    NotLed: StatusCode.NOT_FOUND,
    Unknown: StatusCode.UNKNOWN,
    GangError: StatusCode.FAILED_PRECONDITION,
    StackTimeout: StatusCode.DEADLINE_EXCEEDED,
    StackUnavailable: StatusCode.FAILED_PRECONDITION,
    ProfileBusy: StatusCode.ABORTED,
    ProfileTimeout: StatusCode.DEADLINE_EXCEEDED,
    ProfileUnavailable: StatusCode.FAILED_PRECONDITION,
}
"""Code of each kind of error; of several that fit the first holds."""


def status_code(error: Exception) -> StatusCode:
    return next((code for kind, code in _CODES.items() if isinstance(error, kind)), StatusCode.INTERNAL)
