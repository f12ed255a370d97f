"""Protobuf messages that the agent sends and receives.

Records and messages convert by the names of their fields (core/wire/convert.py). Steps pass through as the bytes in
which the probe encoded them: the agent reads their number and checks their columns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from google.protobuf.message import Message
from tfscale.agent.cluster.failure_report import FailureReport, Verdict
from tfscale.agent.cluster.gang import Verb
from tfscale.agent.cluster.operation import OperationProgress
from tfscale.agent.on_demand.profile_requests import ProfileProgress
from tfscale.agent.on_demand.stack_requests import StackDump
from tfscale.agent.on_demand.task_log import LogLines
from tfscale.agent.placement.seat import SeatReport
from tfscale.agent.process.steady_clock import steady_time
from tfscale.core.access.orders import ORDERS, Subject
from tfscale.core.cluster.task_identity import TaskIdentity
from tfscale.core.failure import hang_limits
from tfscale.core.preflight.examination import Contact, Examination, Transfer
from tfscale.core.records.frame import Description, Farewell, Frame
from tfscale.core.records.hello import Hello
from tfscale.core.records.milestone import Milestone
from tfscale.core.records.probe_status import Activity, Collective, ProbeStatus
from tfscale.core.records.profile import ProfileOrder, ProfileReport, ProfileStage
from tfscale.core.records.schema import OLDEST_SCHEMA, SCHEMA_VERSION
from tfscale.core.records.step_batch import PHASES, Coordinator
from tfscale.core.records.task_status import Reason, TaskState, TaskStatus
from tfscale.core.records.training import Training
from tfscale.core.text import bounded
from tfscale.core.validation import LATEST, check_counts, check_subject
from tfscale.core.wire.convert import Caution, message_of, parsed, record_of
from tfscale.core.wire.fields import WireError, delimited
from tfscale.v1 import agent_pb2, consensus_pb2, placement_pb2, preflight_pb2, relay_pb2, report_pb2, telemetry_pb2

MOST_REASON = 200
"""Characters of a reason, which stands in frames, journals and logs."""
_COLUMNS = ("global_step", *PHASES, "pull")
"""Columns of a batch that may be empty."""
_NEWER_AGENT = Caution(newer={TaskState: TaskState.STOPPING})
"""State of a task whose state this version does not know: it lives and does not run, so nothing is started over it."""
_MOST_TEXT = 2000
"""Characters of a text of a probe: frames repeat it each second, and many stand in a message to a console."""
_OF_PROBE = Caution(lambda text: text[:_MOST_TEXT], newer={ProfileStage: ProfileStage.FAILED})

_OWN_WORK = {
    telemetry_pb2.ACTIVITY_KIND_COMPILE: "traces a graph",
    telemetry_pb2.ACTIVITY_KIND_CHECKPOINT: "writes or reads a checkpoint",
    telemetry_pb2.ACTIVITY_KIND_EVALUATION: "evaluates",
}
"""Activities in which a task makes no step, and for which others may have to wait."""


@dataclass(frozen=True, slots=True)
class EncodedSteps:
    """Batch of steps as the probe encoded it."""

    rows: int
    message: bytes


class StepSums(NamedTuple):
    """Sums over the rows of encoded steps."""

    subject: str
    lost: int
    """Steps before the batch that could not be kept."""
    seconds: tuple[float | None, ...]
    """Sums of the phases, in the order of PHASES; None where no row has the phase."""


@dataclass(frozen=True, slots=True)
class ProbeReport:
    """Report of a probe without its steps; fields without news are None or empty."""

    hello: Hello | None
    probe: ProbeStatus | None
    collective: Collective | None
    training: Training | None
    coordinator: Coordinator | None
    profile: ProfileReport | None
    activities: tuple[Activity, ...]


class EncodedFrame(NamedTuple):
    """Frame as it is sent, encoded once for all watchers."""

    at: float
    rows: int
    """Number of steps in the frame."""
    message: bytes
    steady: float
    """Time at which the frame was made, by `steady_time`."""

    def after(self, dropped: int) -> EncodedFrame:
        """Return this frame with the number of frames before it that its watcher did not get."""
        # Of a field that comes twice the last one counts.
        more = telemetry_pb2.Frame(dropped=dropped).SerializeToString()
        return self._replace(message=self.message + more)


def read_report(data: bytes) -> tuple[ProbeReport, list[EncodedSteps]]:
    """Return the report in these bytes and its steps. Raises WireError."""
    message = parsed(report_pb2.TaskReport, data)
    return record_of(ProbeReport, message, _OF_PROBE), [_steps(batch) for batch in message.steps]


def _steps(batch: telemetry_pb2.StepBatch) -> EncodedSteps:
    """Return steps as they are sent on. Raises WireError for steps that a console could not read."""
    try:
        for name in (batch.subject, batch.reporter):
            check_subject(name)
        for counts in (batch.sequence, batch.global_step):
            check_counts(counts)
    except ValueError as error:
        raise WireError(str(error)) from None
    rows = len(batch.sequence)
    if len(batch.end) != rows:
        raise WireError(f"steps of {batch.subject}: end has {len(batch.end)} rows, not {rows}")
    for name in _COLUMNS:
        if len(getattr(batch, name)) not in (0, rows):
            raise WireError(f"steps of {batch.subject}: {name} has {len(getattr(batch, name))} rows, not {rows}")
    return EncodedSteps(rows, batch.SerializeToString())


def step_sums(steps: EncodedSteps) -> StepSums:
    """Return the sums of steps that `_steps` has checked."""
    batch = telemetry_pb2.StepBatch.FromString(steps.message)
    return StepSums(batch.subject, batch.lost, tuple(_known_sum(getattr(batch, phase)) for phase in PHASES))


def _known_sum(column: Sequence[float]) -> float | None:
    """Return the sum of the known numbers, None where there is none."""
    if not math.isnan(total := sum(column)):
        return total if column else None
    known = [value for value in column if not math.isnan(value)]
    return sum(known) if known else None


def acceptance_reply() -> bytes:
    return report_pb2.ReportReply(accepted=report_pb2.Accepted()).SerializeToString()


def refusal_reply(why: str) -> bytes:
    return report_pb2.ReportReply(refused=why).SerializeToString()


def waiting_reply(why: str) -> bytes:
    return report_pb2.ReportReply(waits=why).SerializeToString()


def order_reply(record: ProfileOrder) -> bytes:
    return report_pb2.ReportReply(profile=message_of(report_pb2.ProfileOrder, record)).SerializeToString()


def decode_frame(frame: EncodedFrame) -> telemetry_pb2.Frame:
    return telemetry_pb2.Frame.FromString(frame.message)


def encode_frame(frame: Frame, steps: Sequence[EncodedSteps]) -> EncodedFrame:
    """Return the encoded frame with these steps."""
    message = message_of(telemetry_pb2.Frame, frame).SerializeToString()
    number = telemetry_pb2.Frame.STEPS_FIELD_NUMBER
    batches = [delimited(number, batch.message) for batch in steps]
    return EncodedFrame(frame.at, sum(batch.rows for batch in steps), b"".join([message, *batches]), steady_time())


def agreed_schema(newest: int) -> int | None:
    """Return the schema version for a caller that understands up to `newest`; None without a common version.

    A caller that names no version, such as a script, gets the newest.
    """
    agreed = min(newest or SCHEMA_VERSION, SCHEMA_VERSION)
    return agreed if agreed >= OLDEST_SCHEMA else None


def snapshot_reply(schema: int, description: Description, recent: Sequence[EncodedFrame]) -> agent_pb2.WatchReply:
    frames = [telemetry_pb2.Frame.FromString(frame.message) for frame in recent]
    snapshot = agent_pb2.Snapshot(description=description_message(description), recent=frames)
    return agent_pb2.WatchReply(schema_version=schema, snapshot=snapshot)


def past_beginning(
    schema: int, description: Description, at: float, milestones: Sequence[Milestone]
) -> agent_pb2.WatchReply:
    """Return the snapshot before the pieces of the past, with the earlier milestones; `at` is now."""
    messages = [message_of(agent_pb2.Milestone, milestone) for milestone in milestones]
    snapshot = agent_pb2.Snapshot(description=description_message(description), at=at, milestones=messages)
    return agent_pb2.WatchReply(schema_version=schema, snapshot=snapshot)


def past_reply(schema: int, frames: Sequence[EncodedFrame], clock_set: float = 0.0) -> bytes:
    """Return a piece of the past, as `frame_reply` does; a piece without frames is its end.

    After these frames the host's clock was set forward by `clock_set` seconds.
    """
    piece = b"".join(delimited(agent_pb2.Past.FRAMES_FIELD_NUMBER, frame.message) for frame in frames)
    piece += agent_pb2.Past(clock_set=clock_set).SerializeToString()
    head = agent_pb2.WatchReply(schema_version=schema).SerializeToString()
    return head + delimited(agent_pb2.WatchReply.PAST_FIELD_NUMBER, piece)


def frame_reply(schema: int, frame: EncodedFrame) -> bytes:
    """Return an encoded WatchReply; its encoded frame is not decoded for each watcher."""
    head = agent_pb2.WatchReply(schema_version=schema).SerializeToString()
    return head + delimited(agent_pb2.WatchReply.FRAME_FIELD_NUMBER, frame.message)


def serialized(reply: Message | bytes) -> bytes:
    """Return a reply of a stream encoded; an encoded reply stays unchanged."""
    return reply if isinstance(reply, bytes) else reply.SerializeToString()


def farewell_reply(schema: int, farewell: Farewell) -> agent_pb2.WatchReply:
    return agent_pb2.WatchReply(schema_version=schema, farewell=message_of(agent_pb2.Farewell, farewell))


def description_message(record: Description) -> agent_pb2.Description:
    message = message_of(agent_pb2.Description, record)
    message.schema_version = SCHEMA_VERSION
    return message


def status_message(record: TaskStatus) -> telemetry_pb2.TaskStatus:
    return message_of(telemetry_pb2.TaskStatus, record)


def status_record(message: telemetry_pb2.TaskStatus) -> TaskStatus:
    """Return a peer's status."""
    return record_of(TaskStatus, message, _NEWER_AGENT)


def failure_message(record: FailureReport, to: agent_pb2.TaskIdentity) -> agent_pb2.FailureReport:
    message = message_of(agent_pb2.FailureReport, record)
    message.to.CopyFrom(to)
    return message


def failure_record(message: agent_pb2.FailureReport) -> FailureReport:
    """Return the report of a failure. Raises WireError for a state that this version does not know."""
    return record_of(FailureReport, message)


def verdict_message(record: Verdict) -> agent_pb2.FailureVerdict:
    return message_of(agent_pb2.FailureVerdict, record)


def verdict_record(message: agent_pb2.FailureVerdict) -> Verdict:
    return record_of(Verdict, message)


def progress_message(record: OperationProgress) -> agent_pb2.Progress:
    return message_of(agent_pb2.Progress, record)


def verb_message(verb: Verb | None) -> agent_pb2.ApplyRequest.Verb.ValueType:
    return agent_pb2.ApplyRequest.Verb.Value("VERB_UNSPECIFIED" if verb is None else f"VERB_{verb.name}")


def verb_record(message: agent_pb2.ApplyRequest.Verb.ValueType) -> Verb | None:
    """Return the command behind a request; None where the other agent's version gives none, or a newer one."""
    return next((verb for verb in Verb if verb_message(verb) == message), None)


def log_message(record: LogLines) -> agent_pb2.LogChunk:
    return message_of(agent_pb2.LogChunk, record)


def stack_message(record: StackDump) -> agent_pb2.StackReply:
    return message_of(agent_pb2.StackReply, record)


def profile_message(record: ProfileProgress) -> agent_pb2.ProfileReply:
    return message_of(agent_pb2.ProfileReply, record)


def examination_message(record: Examination) -> preflight_pb2.Examination:
    return message_of(preflight_pb2.Examination, record)


def reach_reply(at: float, contacts: Sequence[Contact]) -> preflight_pb2.ReachReply:
    return preflight_pb2.ReachReply(at=at, contacts=[message_of(preflight_pb2.Contact, each) for each in contacts])


def send_reply(record: Transfer) -> preflight_pb2.SendReply:
    return message_of(preflight_pb2.SendReply, record)


def identity_record(message: agent_pb2.TaskIdentity) -> TaskIdentity:
    return record_of(TaskIdentity, message)


def identity_message(record: TaskIdentity) -> agent_pb2.TaskIdentity:
    return message_of(agent_pb2.TaskIdentity, record)


def seat_message(record: SeatReport) -> placement_pb2.SeatReply:
    return message_of(placement_pb2.SeatReply, record)


def seat_record(message: placement_pb2.SeatReply) -> SeatReport:
    return record_of(SeatReport, message)


def health_name(identity: TaskIdentity) -> str:
    """Return the service name for questions about an agent's health; a stranger's agent does not know it."""
    return f"{identity.run}/{identity.task}/{identity.fingerprint}"


def watch_request(to: TaskIdentity) -> agent_pb2.WatchRequest:
    return agent_pb2.WatchRequest(schema_version=SCHEMA_VERSION, to=identity_message(to))


def newest_request(to: TaskIdentity) -> agent_pb2.WatchRequest:
    """Return a request for the newest frame, and those that follow."""
    return agent_pb2.WatchRequest(schema_version=SCHEMA_VERSION, since=LATEST, to=identity_message(to))


def pause_in(frame: telemetry_pb2.Frame) -> str:
    """Return why the task of a frame makes no step though it does not hang, empty without a reason."""
    usage = frame.host.task
    if usage.stopped or usage.traced:
        return f"{'was stopped by a signal' if usage.stopped else 'is held by a debugger'}: let its process go on"
    if usage.frozen:
        return "is frozen with its container: let it go on"
    for activity in frame.activities:
        if not activity.HasField("end") and frame.at - activity.begin < hang_limits.BUSY and activity.kind in _OWN_WORK:
            return _OWN_WORK[activity.kind]
    # Whoever hangs in a reduction has entered it after its last step: within a fifth of the time that makes a hang.
    if frame.collective.HasField("entered_at") and frame.at - frame.collective.entered_at < hang_limits.SHORTEST / 2:
        return "reduces with the others, by the word of its own agent"
    return ""


def reason_record(message: agent_pb2.TasksRequest | agent_pb2.ApplyRequest | placement_pb2.PlaceRequest) -> Reason:
    """Return the reason of a request; a console's order has only its words."""
    restarted_for = "" if isinstance(message, agent_pb2.TasksRequest) else message.restarted_for
    return Reason(bounded(message.reason, MOST_REASON), bounded(restarted_for, MOST_REASON))


def order_words(method: str, request: Any) -> tuple[str, Sequence[str], str]:
    """Return the name of an order, its tasks and its reason."""
    if isinstance(request, agent_pb2.ApplyRequest):
        known = request.target in agent_pb2.ApplyRequest.Target.values()
        target = agent_pb2.ApplyRequest.Target.Name(request.target) if known else str(request.target)
        return f"{method} {target.removeprefix('TARGET_')} {request.generation}", [request.to.task], request.reason
    if isinstance(request, agent_pb2.OrderRequest):
        of_task = (order := ORDERS.get(request.name)) is not None and order.subject is Subject.TASK
        return f"{method} {request.name}", [request.to.task] if of_task else [], request.argument
    hosts = [f"without {name}" for name in getattr(request, "without", ())]
    return method, [*getattr(request, "tasks", ()), *hosts], getattr(request, "reason", "")


_NO_ORDERS = (
    agent_pb2.FailureReport,
    relay_pb2.TunnelRequest,
    consensus_pb2.PrepareRequest,
    consensus_pb2.AcceptRequest,
    consensus_pb2.LookRequest,
    consensus_pb2.IntroduceRequest,
)
"""Requests that report, vote or look: the audit log has what somebody ordered."""


def is_order(request: Any) -> bool:
    """Return whether a request is to change something; others ask, report or vote."""
    questions = (agent_pb2.ApplyRequest.TARGET_STOPPABLE, agent_pb2.ApplyRequest.TARGET_STARTABLE)
    is_question = isinstance(request, agent_pb2.ApplyRequest) and request.target in questions
    return not is_question and not isinstance(request, _NO_ORDERS)


def failure_of(reply: Any) -> str:
    """Return the failure in an order's last reply; empty where it succeeded."""
    is_failure = isinstance(reply, agent_pb2.Progress) and reply.stage == agent_pb2.STAGE_FAILED
    return f"failed: {reply.message}" if is_failure else ""
