"""Requests to the agents' service, and its replies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tfscale.console.engine.events import CommandProgressed, Profile
from tfscale.console.wire.frames import CAUTION
from tfscale.core.cluster.cluster_spec import Address
from tfscale.core.cluster.task import Task
from tfscale.core.cluster.task_identity import TaskIdentity
from tfscale.core.preflight.examination import Contact, Examination, Transfer
from tfscale.core.records.frame import Description, Farewell
from tfscale.core.records.milestone import Milestone
from tfscale.core.records.schema import SCHEMA_VERSION
from tfscale.core.records.task_status import Stage
from tfscale.core.text import printable
from tfscale.core.wire.convert import Caution, message_of, parsed, record_of
from tfscale.core.wire.fields import WireError
from tfscale.v1 import agent_pb2, arrival_pb2, placement_pb2, preflight_pb2, report_pb2

_PROGRESS = Caution(printable, newer={Stage: Stage.PLANNED})


@dataclass(frozen=True, slots=True)
class StreamReply:
    """Reply of an agent's stream: a description, frames of the past, or one frame, each as its message."""

    schema_version: int
    description: Description | None = None
    frames: Sequence[bytes] = ()
    farewell: Farewell | None = None
    at: float | None = None
    """Time of the description on the clock of the agent's host; None where the past comes with the description."""
    milestones: tuple[Milestone, ...] = ()
    """Milestones from before its past, oldest first."""
    ends_past: bool = False
    """True once all of the past has come."""
    clock_set: float = 0.0
    """Seconds by which the clock of the agent's host was set forward after these frames of the past."""


@dataclass(frozen=True, slots=True)
class _Progress:
    stage: Stage
    tasks: tuple[Task, ...]
    generation: int
    message: str
    at: float


def reply(data: bytes) -> StreamReply:
    """Return the reply in a WatchReply message. Raises ValueError where there is none."""
    message = parsed(arrival_pb2.ArrivingReply, data)
    if message.HasField("farewell"):
        return StreamReply(message.schema_version, farewell=record_of(Farewell, message.farewell, CAUTION))
    if message.HasField("past"):
        frames = tuple(message.past.frames)
        is_end, clock_set = not frames, message.past.clock_set
        return StreamReply(message.schema_version, frames=frames, ends_past=is_end, clock_set=clock_set)
    if not message.HasField("snapshot"):
        return StreamReply(message.schema_version, None, (message.frame,) if message.HasField("frame") else ())
    snapshot = message.snapshot
    at = snapshot.at if snapshot.HasField("at") else None
    return StreamReply(
        message.schema_version,
        description(snapshot.description),
        tuple(snapshot.recent),
        at=at,
        milestones=tuple(map(milestone, snapshot.milestones)),
        ends_past=at is None,
    )


def milestone(message: agent_pb2.Milestone) -> Milestone:
    return record_of(Milestone, message, CAUTION)


def description(message: agent_pb2.Description) -> Description:
    # The cluster is compared with others, and shown by nobody.
    return replace(record_of(Description, message, CAUTION), cluster=message.cluster)


def progress(message: agent_pb2.Progress, verb: str, at: float) -> CommandProgressed:
    read = record_of(_Progress, message, _PROGRESS)
    return CommandProgressed(at, verb, read.stage, read.tasks, read.generation, read.message)


def progress_message(event: CommandProgressed) -> agent_pb2.Progress:
    record = _Progress(event.stage, event.tasks, event.generation, event.message, event.at)
    return message_of(agent_pb2.Progress, record)


def profile(message: agent_pb2.ProfileReply, seconds: float) -> Profile:
    stages = {
        report_pb2.PROFILE_STAGE_ASKED: "asking the process",
        report_pb2.PROFILE_STAGE_CAPTURING: f"capturing for {seconds:g} s",
        report_pb2.PROFILE_STAGE_WRITING: "writing",
        report_pb2.PROFILE_STAGE_WRITTEN: "written",
    }
    doing = stages.get(message.stage, "working")
    return Profile(doing, printable(message.folder), printable(message.file), message.bytes, message.content)


def stack_text(message: agent_pb2.StackReply) -> str:
    """Return the stacks line by line; the file names are the other host's."""
    return "\n".join(map(printable, message.text.split("\n")))


def watch_request(to: TaskIdentity, since: float, past: float | None = None) -> agent_pb2.WatchRequest:
    """Return a request for the frames after `since`, Unix seconds on the clock of the agent's host.

    With `past` it asks for the last `past` seconds instead; an older agent ignores `past` and goes by `since`.
    """
    return agent_pb2.WatchRequest(schema_version=SCHEMA_VERSION, since=since, past=past, to=_to(to))


def describe_request(to: TaskIdentity | None = None) -> agent_pb2.DescribeRequest:
    """Return the request for an agent's description; an agent of unknown task gets no names."""
    return agent_pb2.DescribeRequest() if to is None else agent_pb2.DescribeRequest(to=_to(to))


def tasks_request(to: TaskIdentity, tasks: Sequence[Task], reason: str, generation: int) -> agent_pb2.TasksRequest:
    """Return a request for a command to tasks, refused unless `generation` is the newest; 0 is any."""
    return agent_pb2.TasksRequest(tasks=map(str, tasks), reason=reason, expected_generation=generation, to=_to(to))


def policy_request(
    to: TaskIdentity, task: Task, policy: str, reason: str, generation: int, *, was_worth_it: bool
) -> agent_pb2.TasksRequest:
    """Ask for a restart of a slow task by the lead's policy."""
    request = tasks_request(to, [task], reason, generation)
    request.by_policy.on_straggler, request.by_policy.was_worth_it = policy, was_worth_it
    return request


def without_request(to: TaskIdentity, hosts: Sequence[str], reason: str) -> agent_pb2.TasksRequest:
    """Return a request for a restart that places the tasks of these hosts on others."""
    return agent_pb2.TasksRequest(without=hosts, reason=reason, to=_to(to))


def seat_request(to: TaskIdentity, seat: Address) -> placement_pb2.SeatRequest:
    return placement_pb2.SeatRequest(to=_to(to), seat=str(seat))


def order_request(to: TaskIdentity, name: str, argument: str) -> agent_pb2.OrderRequest:
    return agent_pb2.OrderRequest(to=_to(to), name=name, argument=argument)


def log_request(
    to: TaskIdentity, tail: int, *, follows: bool = False, of_orders: bool = False
) -> agent_pb2.FollowLogRequest:
    return agent_pb2.FollowLogRequest(tail=tail, follow=follows, orders=of_orders, to=_to(to))


def stack_request(to: TaskIdentity) -> agent_pb2.StackRequest:
    return agent_pb2.StackRequest(to=_to(to))


def profile_request(to: TaskIdentity, seconds: float, *, fetch: bool) -> agent_pb2.ProfileRequest:
    return agent_pb2.ProfileRequest(seconds=seconds, to=_to(to), fetch=fetch)


def examine_request(to: TaskIdentity, *, receives: bool = False) -> preflight_pb2.ExamineRequest:
    return preflight_pb2.ExamineRequest(to=_to(to), receives=receives)


def examination(message: preflight_pb2.Examination) -> Examination:
    return record_of(Examination, message, CAUTION)


def reach_request(to: TaskIdentity, tasks: Sequence[Task] = ()) -> preflight_pb2.ReachRequest:
    return preflight_pb2.ReachRequest(to=_to(to), tasks=map(str, tasks))


def contacts(message: preflight_pb2.ReachReply) -> tuple[Contact, ...]:
    return tuple(record_of(Contact, each, CAUTION) for each in message.contacts)


def send_request(to: TaskIdentity, target: Task, port: int, seconds: float) -> preflight_pb2.SendRequest:
    return preflight_pb2.SendRequest(to=_to(to), task=str(target), port=port, seconds=seconds)


def transfer(message: preflight_pb2.SendReply) -> Transfer:
    """Return what was sent. Raises WireError where that took no time."""
    done = record_of(Transfer, message, CAUTION)
    if not done.problem and not 0 < done.seconds < math.inf:
        raise WireError(f"it has sent for {done.seconds:g} s")
    return done


def _to(identity: TaskIdentity) -> agent_pb2.TaskIdentity:
    return message_of(agent_pb2.TaskIdentity, identity)
